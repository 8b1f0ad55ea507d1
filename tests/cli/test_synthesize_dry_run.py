"""What `privet synthesize` foretells: with --dry-run, and before it pays."""

import json
import re

import numpy as np
import pytest

from privet.cli.progress import Watch
from privet.privacy import Ledger
from privet.runs import synthesis_course
from tests.cli.runs import QUICK_SYNTHESIS, SYSTEMS


class TestDryRun:
    @pytest.fixture(autouse=True)
    def closed(self, monkeypatch, tmp_path):
        """No hedge, and nothing in the folder where the command runs."""
        import privet.hedge.hedge as boundary

        def refused(*_, **__):
            raise AssertionError("a hedge was made")

        monkeypatch.setattr(boundary.Hedge, "__init__", refused)
        monkeypatch.chdir(tmp_path)

    def test_it_foretells_noise_and_signal(self, privet, tmp_path, encoder, one_thread):
        words = (
            f"{QUICK_SYNTHESIS} --method {SYSTEMS['sps-g']} --encoder {encoder} --public 0.1 "
            "--declared-size 1600 --out run --dry-run"
        )
        shown = privet(words)
        assert shown.code == 0, shown.err
        assert re.search(r"noise multiplier +1\.9939\n", shown.out)
        for part in (
            "1 × Gaussian release",
            "ε = 2 at δ = 1e-05 (add or remove one example, PLD)",
            "predicted from public images",
            "  counts.mean",
        ):
            assert part in shown.out
        body = json.loads(privet(f"{words} --json").out)
        assert {"epsilon", "delta", "relation", "unit", "accountant"} <= body.keys()
        ratios = body["signal_to_noise"]
        assert len(ratios) == 13  # means and second moments of six parts, and counts
        assert all(0 < ratio < 1000 for ratio in ratios.values())
        less = json.loads(privet(f"{words} --json --declared-size 160").out)["signal_to_noise"]
        assert all(less[name] == pytest.approx(each / 10) for name, each in ratios.items())
        assert list(tmp_path.iterdir()) == []

    def test_without_a_size_there_is_nothing_to_foretell(self, synthesize, encoder):
        for words in ("--declared-size 1600", f"--public 0.1 --encoder {encoder}"):
            shown = synthesize(f"{words} --dry-run --json")
            assert shown.code == 0
            assert "Give --declared-size and public images" in shown.err
            assert json.loads(shown.out)["signal_to_noise"] == {}

    def test_it_does_not_depend_on_private_pixels(self, privet, tmp_path, encoder, one_thread):
        rng, labels = np.random.default_rng(0), np.arange(60) % 3
        np.savez(tmp_path / "public.npz", x=rng.integers(0, 256, (60, 8, 8), np.uint8), y=labels)
        words = QUICK_SYNTHESIS.replace("digits", str(tmp_path / "data.npz"))
        words = (
            f"{words} --method {SYSTEMS['sps-g']} --public {tmp_path / 'public.npz'} "
            f"--encoder {encoder} --declared-size 60 --dry-run --json"
        )
        shown = []
        for value in (0, 255):
            np.savez(tmp_path / "data.npz", x=np.full((60, 8, 8), value, np.uint8), y=labels)
            shown.append(privet(words))
        assert shown[0] == shown[1]
        assert shown[0].code == 0

    def test_it_refuses_what_a_ledger_has_no_room_for(self, synthesize, tmp_path):
        Ledger.create(tmp_path / "o.db", epsilon=1, delta=1e-5, relation="add-remove").close()
        assert synthesize(f"--ledger {tmp_path / 'o.db'} --dry-run").code == 3


def test_what_noise_swamps_is_said_before_it_is_paid_for(synthesize, encoder, monkeypatch):
    said, reserve = [], synthesis_course.find_or_reserve

    def reserved(*words):
        said.append("reserved")
        return reserve(*words)

    def before_the_reservation(words, out):
        said.clear()
        method = f"--encoder {encoder} --public 0.1 --declared-size 1400 --method"
        assert synthesize(f"{method} {words}", out=out).code == 0
        return said[: said.index("reserved")]

    monkeypatch.setattr(synthesis_course, "find_or_reserve", reserved)
    monkeypatch.setattr(Watch, "note", lambda _, sentence: said.append(sentence))
    [everything] = before_the_reservation(f"{SYSTEMS['sps-g']} --epsilon 0.001", "a")
    assert "At ε = 0.001 noise swamps every block of this release (signal over" in everything
    large = SYSTEMS["sps-g"].replace("deep=6", "deep=100")
    [one] = before_the_reservation(f"{large} --epsilon 0.4", "b")
    assert one.startswith("Noise swamps layers_4@4-100-class.second (signal over noise 0.0")
    assert before_the_reservation(f"{SYSTEMS['sps-g']} --epsilon 10", "c") == []


class TestChoices:
    """What nobody asked for is chosen, said and kept."""

    def test_they_are_said_and_quoted(self, synthesize, encoder):
        words = f"--method sps --encoder {encoder} --declared-size 1800 --dry-run"
        shown = synthesize(words)
        assert shown.code == 0, shown.err
        for sentence in (
            "clip_ratios = 1/16: noise of 0.011 for each image of a class.",
            "global_size = 8 and class_size = 8: noise of 0.011 for each image of a class",
            "per_class = 20 and iterations = 200: batches of 200 images of 8 pixels a side.",
            "flip = False: grey images may be of letters or digits.",
        ):
            assert shown.err.count(sentence) == 1
        body = json.loads(synthesize(f"{words} --json").out)
        assert len(body["choices"]) == 4
        assert (body["global_size"], body["class_size"], body["iterations"]) == (8, 8, 200)

    def test_what_is_given_wins(self, synthesize, encoder):
        words = f"--encoder {encoder} --dry-run --json --method"
        body = json.loads(synthesize(f"{words} sps:global_size=5,iterations=3").out)
        assert (body["global_size"], body["class_size"], body["iterations"]) == (5, 8, 3)
        assert [each.partition(" ")[0] for each in body["choices"]] == [
            *("clip_ratios", "class_size", "per_class", "flip")
        ]
        body = json.loads(synthesize(f"{words} dp-mepf:iterations=3").out)
        assert body["training"]["iterations"] == 3
        assert body["training"]["learning_rate"] == 1e-3  # chosen, beside what was given
        assert body["choices"] == []

    def test_a_run_keeps_them(self, synthesize, privet, tmp_path, encoder):
        words = "sps:iterations=2,per_class=2,global_size=4"
        done = synthesize(f"--encoder {encoder} --method {words} --json")
        assert done.code == 0, done.err
        body = json.loads(done.out)
        assert len(body["choices"]) == 3
        assert all(each in done.err for each in body["choices"])
        more = privet(f"synthesize --out {tmp_path / 'run'} --resume --count 70 --json")
        assert json.loads(more.out)["choices"] == body["choices"]


class TestPresets:
    def test_papers_settings_where_nothing_is_given(self, synthesize, encoder):
        words = f"--encoder {encoder} --dry-run --json --preset paper --method"
        body = json.loads(synthesize(f"{words} sps-plus:iterations=3").out)
        assert (body["global_size"], body["iterations"], body["pseudo_count"]) == (256, 3, 40)
        assert body["choices"] == ["Settings are those of the SPS paper for CIFAR-10 at ε = 2."]
        body = json.loads(synthesize(f"{words} dp-mepf:iterations=3,average_rate=0.5").out)
        assert (body["training"]["iterations"], body["training"]["steady"]) == (3, 1.0)
        assert (body["training"]["learning_rate"], body["average_rate"]) == (1e-5, 0.5)

    def test_a_run_goes_on_with_its_own(self, synthesize, privet, tmp_path):
        words = "--preset paper --method dp-merf:size=20,iterations=2,batch_size=40"
        assert synthesize(words).code == 0
        config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
        assert config["preset"] == "paper"
        assert config["system"]["training"]["learning_rate"] == 1e-5
        assert privet(f"synthesize --out {tmp_path / 'run'} --resume --count 70").code == 0
        other = privet(f"synthesize --out {tmp_path / 'run'} --resume --count 80 --preset auto")
        assert (other.code, "in the run and" in other.err) == (2, True)


def test_noise_beyond_any_signal_is_said_without_public_images(synthesize):
    part = "every released number has more noise than a class of average size could have signal"
    shown = synthesize("--epsilon 0.001 --declared-size 1400 --dry-run")
    assert (shown.code, f"At ε = 0.001 {part}" in shown.err) == (0, True)
    shown = synthesize("--epsilon 1 --declared-size 1400 --dry-run")
    assert (shown.code, part in shown.err) == (0, False)


def test_a_large_delta_is_worth_a_sentence(synthesize, privet, tmp_path):
    said = synthesize("--delta 0.01 --declared-size 1400 --dry-run").err
    assert "δ = 0.01 is not below 1/1400" in said
    assert "a single example is published whole" in said
    (tmp_path / "guests.csv").write_text("age,smokes\n" + "30,yes\n40,no\n" * 20)
    words = f"synthesize {tmp_path / 'guests.csv'} --target smokes --method dp-merf --public 0.5"
    assert "δ = 0.01 is large" in privet(f"{words} --epsilon 1 --delta 0.01 --dry-run").err
