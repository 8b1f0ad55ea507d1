import json

from privet.privacy import GaussianRelease, Ledger, Plan


def test_create_and_show(privet, tmp_path):
    path = tmp_path / "owner.db"
    created = privet(f"ledger create {path} --epsilon 2 --delta 1e-5 --relation replace-one")
    assert created.code == 0
    assert "ε = 2 at δ = 1e-05 (replace one example)" in created.out

    ledger = Ledger.open(path)
    reservation = ledger.reserve(
        plan=Plan.of(GaussianRelease(noise_multiplier=8.0, releases=2)), label="first"
    )
    reservation.spend(reservation.plan.events[0])
    shown = privet(f"ledger show {path}").out
    assert "first" in shown
    assert "spent     1 of 2 × Gaussian release (σ = 8)" in shown

    body = json.loads(privet(f"ledger show {path} --json").out)
    assert body["relation"] == "replace-one"
    assert 0 < body["remaining_epsilon"] < 2
    assert body["reservations"][0]["spent"] == [1]


def test_refusals_exit_with_3(privet, tmp_path):
    missing = privet(f"ledger show {tmp_path / 'none.db'}")
    assert missing.code == 3
    assert "There is no ledger at" in missing.err

    path = tmp_path / "l.db"
    privet(f"ledger create {path} --epsilon 2 --delta 1e-5")
    again = privet(f"ledger create {path} --epsilon 9 --delta 1e-5")
    assert again.code == 3
    assert "never overwritten" in again.err
    assert Ledger.open(path).budget.epsilon == 2

    path.write_bytes(b"garbage" * 1000)
    damaged = privet(f"ledger show {path}")
    assert damaged.code == 3
    assert damaged.err.count("\n") == 1


def test_bad_budgets_leave_no_file(privet, tmp_path):
    assert privet(f"ledger create {tmp_path / 'l.db'} --epsilon -2 --delta 1e-5").code == 2
    assert privet(f"ledger create {tmp_path / 'l.db'} --epsilon 2 --delta 0").code == 2
    assert list(tmp_path.iterdir()) == []
