"""Parties and server without a network: what leaves a party, what it costs, what is refused."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from privet.data import load
from privet.errors import ConfigError, DataError, PrivacyError, PrivetError
from privet.federate import (
    Agreement,
    Answer,
    Ask,
    Party,
    Refusal,
    added,
    answer,
    answering,
    conduct,
)
from privet.federate.messages import PREPARE
from privet.federate.party import simulated_parties
from privet.federate.sums import checked_sum
from privet.hedge import NoisySum
from privet.models import ConvEncoder
from privet.privacy import Ledger
from privet.privacy.federated import FederatedCertificate
from privet.recipes.public_encoders import Pretrained
from privet.recipes.synthesis_methods import stage_release
from privet.release import Moments
from privet.runs.data_choice import DataChoice
from privet.runs.folder_memory import probe_of
from privet.runs.teachers import origins_of
from tests.federate.small import (
    ENCODER,
    STAGED,
    Audience,
    columns_of,
    directly,
    parties_in,
    party_in,
    server_in,
    write,
)
from tests.recipes.small import CLASSES, SHAPE, Silence


def spent_by(party):
    path = Path(party.out) / "ledger.db"
    if not path.exists():
        return 0
    return sum(sum(each.spent) for each in Ledger.open(path).records())


def first_ask(server, stage=0):
    """What a server asks, and the release that it looks for."""
    from tests.recipes.small import DictMemory

    public = server.public_images()
    agreement = server.agreement(public)
    prepared = agreement.prepared(ENCODER, public, DictMemory(), lambda *_: None)
    release = stage_release(agreement.moments, prepared, 0)
    probe = probe_of(release.embedding, SHAPE)
    return Ask(agreement=agreement, stage=stage, probe=probe), release


@pytest.fixture
def silence(monkeypatch):
    monkeypatch.setattr(answering, "Randomness", lambda seed: Silence())


def test_without_noise_the_parties_sums_are_the_sum_of_all_rows(tmp_path, silence):
    parties = parties_in(tmp_path)
    ask, release = first_ask(server_in(tmp_path))
    apart = [answer(each, ask) for each in parties.values()]
    together = added([NoisySum(dict(each.tensors), each.noise_scale) for each in apart])

    columns = [columns_of(name) for name in parties]
    pooled = {key: np.concatenate([each[key] for each in columns]) for key in columns[0]}
    data = write(tmp_path / "pooled.npz", pooled)
    everyone = replace(parties["ant"], name="all", data=data, out=str(tmp_path / "all"))
    whole = answer(everyone, ask)
    assert whole.refusal is None
    assert together.blocks.keys() == release.embedding.zeros().keys()
    for name, block in whole.tensors.items():
        torch.testing.assert_close(together[name], block, rtol=1e-4, atol=1e-4)


def test_variances_of_noise_add_up(tmp_path):
    """Accepts the right scale, and rejects 2/3 and 3/2 of it."""
    parties = {
        name: replace(each, noise_seed=seed)
        for seed, (name, each) in enumerate(parties_in(tmp_path).items())
    }
    server = server_in(
        tmp_path, method="sps-g:early=12,middle=12,deep=0,pixels=12,everywhere=2,iterations=1"
    )
    ask, _ = first_ask(server)
    noisy = [answer(each, ask) for each in parties.values()]
    assert len({each.noise_scale for each in noisy}) == 3  # every party has its own ε
    quiet = [
        replace(each, name=f"{name}-quiet", out=f"{each.out}-quiet", noise_seed=0)
        for name, each in parties.items()
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(answering, "Randomness", lambda seed: Silence())
        exact = [answer(each, ask) for each in quiet]
    sums = [
        added([NoisySum(dict(a.tensors), a.noise_scale) for a in each]) for each in (noisy, exact)
    ]
    gap = torch.cat([(sums[0][name] - sums[1][name]).flatten() for name in sums[0].blocks])
    expected = math.sqrt(sum(each.noise_scale**2 for each in noisy))
    assert sums[0].noise_scale == pytest.approx(expected)
    found, tolerance = float(gap.double().std()), 5 / math.sqrt(2 * len(gap))
    assert abs(found / expected - 1) < tolerance < 1 / 3


@pytest.mark.parametrize("method", [None, STAGED])
def test_a_whole_federation(tmp_path, method):
    parties, listener = parties_in(tmp_path), Audience()
    server = server_in(tmp_path, **({} if method is None else {"method": method}))
    result = conduct(server, directly(parties), listener)
    stages = 1 if method is None else 2
    assert result.summary["stages"] == [["ant", "bee", "cow"]] * stages
    assert [spent_by(each) for each in parties.values()] == [stages] * 3
    made = load(tmp_path / "server" / "synthetic")
    assert (len(made), made.image_shape, made.num_classes) == (30, SHAPE, CLASSES)
    promised = [each.guarantee.epsilon for each in result.certificate.parties.values()]
    assert promised == pytest.approx([2.0, 5.0, 1.0], rel=1e-3)
    assert result.certificate.everywhere[0] <= 8.0
    assert "one row at each of several parties" in result.certificate.statement
    body = json.loads((tmp_path / "server" / "certificate.json").read_text())
    assert FederatedCertificate.from_json(body) == result.certificate
    assert not (tmp_path / "server" / "ledger.db").exists()

    again = directly(parties)
    assert conduct(server, again, listener).summary == result.summary
    assert again.asked == []


def test_each_party_makes_its_own_images(tmp_path):
    parties = parties_in(tmp_path)
    server = server_in(tmp_path, generation="decentralised")
    result = conduct(server, directly(parties), Audience())
    assert result.summary["images"] == len(load(tmp_path / "server" / "synthetic")) == 30
    assert [spent_by(each) for each in parties.values()] == [1, 1, 1]
    assert [each.private for each in result.certificate.parties.values()] == [True] * 3


def test_an_answer_that_is_lost_is_sent_again_and_paid_once(tmp_path):
    parties = parties_in(tmp_path)
    asked = directly(parties, silent={"bee": 1})
    result = conduct(server_in(tmp_path), asked, Audience())
    assert asked.asked.count(("bee", 0)) == 2
    assert not result.certificate.left_out
    assert [spent_by(each) for each in parties.values()] == [1, 1, 1]


def test_a_party_sends_the_same_numbers_again(tmp_path):
    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path))
    first, second = answer(parties["ant"], ask), answer(parties["ant"], ask)
    assert all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)
    assert spent_by(parties["ant"]) == 1


def test_a_party_that_stays_silent_is_left_out_by_name(tmp_path):
    parties = parties_in(tmp_path)
    server = server_in(tmp_path, at_least=2)
    result = conduct(server, directly(parties, silent={"bee": 9}), Audience())
    assert result.certificate.left_out == {"bee": "it did not answer in time"}
    assert list(result.certificate.parties) == ["ant", "cow"]


def test_too_few_parties_end_the_round_and_can_go_on_later(tmp_path):
    parties = parties_in(tmp_path)
    with pytest.raises(PrivetError, match=r"2 parties answered and 3 are needed \(bee: it did"):
        conduct(server_in(tmp_path), directly(parties, silent={"bee": 9}), Audience())
    result = conduct(server_in(tmp_path), directly(parties), Audience())
    assert list(result.certificate.parties) == ["ant", "bee", "cow"]
    assert [spent_by(each) for each in parties.values()] == [1, 1, 1]


def test_a_server_that_dies_between_stages_goes_on_with_the_next(tmp_path):
    parties = parties_in(tmp_path)
    server, asked = server_in(tmp_path, method=STAGED), directly(parties)

    def dies(ask, nodes):
        if ask.stage == 1:
            raise KeyboardInterrupt
        return asked(ask, nodes)

    with pytest.raises(KeyboardInterrupt):
        conduct(server, dies, Audience())
    again = directly(parties)
    result = conduct(server, again, Audience())
    assert {stage for _, stage in again.asked} == {PREPARE, 1}
    assert result.summary["stages"] == [["ant", "bee", "cow"]] * 2
    assert [spent_by(each) for each in parties.values()] == [2, 2, 2]


def test_a_party_that_misses_a_stage_is_in_the_others(tmp_path):
    parties = parties_in(tmp_path)
    server = server_in(tmp_path, method=STAGED, at_least=2)
    result = conduct(server, directly(parties, silent={"bee": 2}), Audience())
    assert result.summary["stages"] == [["ant", "cow"], ["ant", "bee", "cow"]]
    assert result.certificate.left_out == {"bee": "it did not answer in time"}
    assert list(result.certificate.parties) == ["ant", "cow", "bee"]


def test_replace_one_costs_twice_the_noise_and_is_certified(tmp_path):
    parties = parties_in(tmp_path)
    ask, release = first_ask(server_in(tmp_path))
    twice = replace(parties["ant"], relation="replace-one", out=str(tmp_path / "twice"))
    one, other = answer(parties["ant"], ask), answer(twice, ask)
    assert other.noise_scale == pytest.approx(2 * one.noise_scale, rel=1e-3)
    assert checked_sum(other, release).noise_scale == other.noise_scale
    assert other.certificate.guarantee.relation.value == "replace-one"


@pytest.mark.parametrize(
    "other", [{"encoder": "untrained:width=8,groups=4,seed=1"}, {"public": "other.npz"}]
)
def test_another_encoder_or_other_public_images_are_refused_before_anyone_spends(tmp_path, other):
    parties = parties_in(tmp_path)
    if "public" in other:
        other = {"public": write(tmp_path / "other.npz", columns_of("bee"))}
    parties["cow"] = replace(parties["cow"], **other)
    with pytest.raises(PrivetError, match="cow: it has another encoder"):
        conduct(server_in(tmp_path), directly(parties), Audience())
    assert [spent_by(each) for each in parties.values()] == [0, 0, 0]


def test_another_seed_of_projections_is_refused(tmp_path):
    parties = parties_in(tmp_path)
    staged = server_in(tmp_path, method=STAGED)
    ask, _ = first_ask(staged)
    other = Agreement.from_json(ask.agreement.to_json())
    other = replace(other, system=replace(other.system, seed=5))
    refused = answer(parties["ant"], replace(ask, agreement=other))
    assert refused.refusal is Refusal.EMBEDDING
    assert spent_by(parties["ant"]) == 0


def spoiled(kind):
    def change(made, ask):
        if made.party != "bee" or ask.stage < 0:
            return made
        tensors = dict(made.tensors)
        name = next(iter(tensors))
        if kind == "shape":
            tensors[name] = tensors[name][:, :-1]
        elif kind == "nan":
            tensors[name] = torch.full_like(tensors[name], math.nan)
        elif kind == "type":
            tensors[name] = tensors[name].double()
        elif kind == "missing":
            del tensors[name]
        elif kind == "more":
            tensors["rows"] = torch.zeros(3)
        elif kind == "scale":
            return replace(made, noise_scale=0.5 * made.noise_scale)
        elif kind == "certificate":
            guarantee = replace(made.certificate.guarantee, epsilon=0.1)
            return replace(made, certificate=replace(made.certificate, guarantee=guarantee))
        elif kind == "no certificate":
            return replace(made, certificate=None)
        return replace(made, tensors=tensors)

    return change


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("shape", "was agreed on"),
        ("nan", "a number that is none"),
        ("type", "was agreed on"),
        ("missing", "sent nothing for"),
        ("more", "more than was agreed on"),
        ("scale", "noise scale"),
        ("certificate", "promises ε = 0.1"),
        ("no certificate", "no certificate"),
    ],
)
def test_a_bad_answer_is_left_out_with_the_name_of_its_party(tmp_path, kind, said):
    parties = parties_in(tmp_path)
    server = server_in(tmp_path, at_least=2)
    result = conduct(server, directly(parties, change=spoiled(kind)), Audience())
    assert list(result.certificate.parties) == ["ant", "cow"]
    assert said in result.certificate.left_out["bee"]
    assert [spent_by(each) for each in parties.values()] == [1, 1, 1]


@pytest.mark.parametrize("kind", ["images", "labels"])
def test_bad_images_of_a_party_are_left_out(tmp_path, kind):
    def change(made, ask):
        if made.party != "bee" or ask.stage < 0:
            return made
        bad = {**made.tensors, kind: made.tensors[kind][:-1]}
        return replace(made, tensors=bad)

    parties = parties_in(tmp_path)
    server = server_in(tmp_path, generation="decentralised", at_least=2)
    result = conduct(server, directly(parties, change=change), Audience())
    assert "'bee' sent no 10 images" in result.certificate.left_out["bee"]
    assert result.summary["images"] == 20


def test_a_party_is_in_one_federation_for_each_folder(tmp_path):
    parties = parties_in(tmp_path)
    conduct(server_in(tmp_path), directly(parties), Audience())
    ask, _ = first_ask(server_in(tmp_path))  # of another federation
    assert answer(parties["ant"], ask).refusal is Refusal.AGREEMENT
    assert spent_by(parties["ant"]) == 1


def test_terms_cannot_change_on_the_way(tmp_path):
    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path))
    assert answer(parties["ant"], replace(ask, stage=PREPARE)).refusal is None
    harder = replace(ask.agreement, system=replace(ask.agreement.system, clip_norm=9.0))
    assert answer(parties["ant"], replace(ask, agreement=harder)).refusal is Refusal.AGREEMENT
    assert answer(replace(parties["ant"], epsilon=9.0), ask).refusal is Refusal.AGREEMENT
    assert spent_by(parties["ant"]) == 0


def test_trap_a_centre_of_another_shape_buys_no_more_than_was_agreed(tmp_path):
    """One number that is spread over all coordinates would be clipped as if it were one."""
    parties, refused = parties_in(tmp_path), []

    def narrowed(ask, nodes):
        if ask.stage == 1:
            narrow = {
                name: Moments(each.mean[:, :1], each.second[:, :1, :1])
                for name, each in ask.centre.items()
            }
            refused.extend(
                answer(each, replace(ask, centre=narrow)).refusal for each in parties.values()
            )
        return directly(parties)(ask, nodes)

    conduct(server_in(tmp_path, method=STAGED), narrowed, Audience())
    assert refused == [Refusal.AGREEMENT] * 3
    assert [spent_by(each) for each in parties.values()] == [2, 2, 2]


@pytest.mark.parametrize("stage", [1, -2])
def test_a_stage_that_is_not_in_the_plan_is_refused(tmp_path, stage):
    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path), stage)
    assert answer(parties["ant"], ask).refusal is Refusal.AGREEMENT


def test_an_owners_ledger_that_is_spent_refuses(tmp_path):
    ledger = Ledger.create(tmp_path / "own.db", epsilon=1.0, delta=1e-5, relation="add-remove")
    parties = parties_in(tmp_path)
    poor = replace(parties["ant"], ledger=str(tmp_path / "own.db"))  # which asks for 2
    ask, _ = first_ask(server_in(tmp_path))
    notes = []
    made = answer(poor, ask, notes.append)
    assert made.refusal is Refusal.BUDGET
    assert "would fit" in notes[0]
    assert "would fit" not in made.words()
    assert ledger.records() == ()


def test_an_owner_hears_of_a_large_delta_before_anything_is_spent(tmp_path):
    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path), PREPARE)
    notes = []
    assert answer(replace(parties["ant"], delta=0.1), ask, notes.append).refusal is None
    assert any(each.startswith("ant: δ = 0.1 is large") for each in notes)


def test_trap_shared_images_that_are_a_release_are_named(tmp_path):
    parties = parties_in(tmp_path)
    (tmp_path / "certificate.json").write_text('{"epsilon": 1.0}')
    ask, _ = first_ask(server_in(tmp_path))
    notes = []
    for stage in (PREPARE, 0):
        made = answer(parties["ant"], replace(ask, stage=stage), notes.append)
        assert made.refusal is None
    assert any("are a private release themselves" in each for each in notes)
    assert any("public rows that are a private release" in each for each in made.certificate.public)


def test_trap_an_encoder_that_a_partys_own_rows_taught_is_refused(tmp_path):
    """Public ones, says the run that taught it; here they are private."""
    parties = parties_in(tmp_path)
    data = parties["ant"].data
    choice = DataChoice(source=data, public=data)
    weights = ConvEncoder(1).state_dict()
    file = tmp_path / "encoder.safetensors"
    save_file(weights, file, origins_of(Pretrained(), choice)["encoder"])
    ask, _ = first_ask(server_in(tmp_path), PREPARE)
    notes = []
    made = answer(replace(parties["ant"], encoder=str(file)), ask, notes.append)
    assert made.refusal is Refusal.GUARANTEE
    assert "learned from rows of the private data" in notes[0]


def test_what_goes_wrong_stays_with_the_party(tmp_path):
    """A sentence may name private files, so it never leaves."""
    parties = parties_in(tmp_path)
    Path(parties["ant"].data).write_bytes(b"nonsense")
    ask, _ = first_ask(server_in(tmp_path))
    notes = []
    made = answer(parties["ant"], ask, notes.append)
    assert "ant.npz" in notes[0]
    assert made.refusal is Refusal.DATA
    assert "npz" not in made.words()
    assert made.tensors == {}


def test_an_unexpected_error_says_nothing_either(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a secret")

    monkeypatch.setattr(answering, "read_sets", fail)
    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path))
    made = answer(parties["ant"], ask)
    assert made.refusal is Refusal.FAILED
    assert "secret" not in made.words()


def test_a_release_that_was_paid_for_and_lost_is_never_made_again(tmp_path):
    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path))
    answer(parties["ant"], ask)
    (tmp_path / "ant" / "releases" / "release-0.safetensors").unlink()
    assert answer(parties["ant"], ask).refusal is Refusal.GUARANTEE
    assert spent_by(parties["ant"]) == 1


def test_a_party_at_work_is_busy(tmp_path):
    from privet.runs.run_folder import RunFolder

    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path))
    with RunFolder(Path(parties["ant"].out)).claimed():
        assert answer(parties["ant"], ask).refusal is Refusal.BUSY


def test_two_parties_of_one_name_are_not_both_counted(tmp_path):
    parties = parties_in(tmp_path)
    parties["bee"] = replace(parties["bee"], name="ant")
    with pytest.raises(PrivetError, match="another party is called 'ant' too"):
        conduct(server_in(tmp_path), directly(parties), Audience())
    assert [spent_by(each) for each in parties.values()] == [0, 0, 0]


def test_classes_are_known_by_their_names(tmp_path):
    parties = parties_in(tmp_path)
    strange = party_in(tmp_path, "bee", public=parties["ant"].public, epsilon=1.0)
    columns = columns_of("bee")
    np.savez(strange.data, **columns, class_names=np.array(["0", "1", "cat"]))
    ask, _ = first_ask(server_in(tmp_path))
    notes = []
    assert answer(strange, ask, notes.append).refusal is Refusal.AGREEMENT
    assert "'cat'" in notes[0]


def test_labels_in_another_order_mean_the_same(tmp_path, silence):
    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path))
    plain = answer(parties["bee"], ask)
    columns = columns_of("bee")
    turned = {**columns, "labels": CLASSES - 1 - columns["labels"]}
    np.savez(tmp_path / "turned.npz", **turned, class_names=np.array(["2", "1", "0"]))
    other = replace(parties["bee"], data=str(tmp_path / "turned.npz"), out=str(tmp_path / "turned"))
    found = answer(other, ask)
    for name, block in plain.tensors.items():
        torch.testing.assert_close(found.tensors[name], block)


def test_nothing_of_the_size_of_a_party_leaves_it(tmp_path):
    """Two parties of different sizes send the same words, tensors of the same shapes."""
    parties = parties_in(tmp_path)
    ask, _ = first_ask(server_in(tmp_path))
    few = {key: each[:6] for key, each in columns_of("bee").items()}
    write(tmp_path / "few.npz", few)
    small = replace(parties["bee"], data=str(tmp_path / "few.npz"), out=str(tmp_path / "few"))
    one, other = answer(parties["bee"], ask), answer(small, ask)
    assert one.words() == other.words()
    assert [each.shape for each in one.tensors.values()] == [
        each.shape for each in other.tensors.values()
    ]


def test_seeded_noise_is_not_private_anywhere(tmp_path):
    parties = parties_in(tmp_path, noise_seed=3)
    result = conduct(server_in(tmp_path), directly(parties), Audience())
    assert not result.certificate.private
    assert result.certificate.statement.count("NOT private") == 3
    assert result.certificate.everywhere[0] == math.inf


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"public": "0.2"}, "not a share"),
        ({"relation": "twins"}, "--relation is 'twins'"),
        ({"epsilon": -1.0}, "ε"),
        ({"name": " "}, "name"),
    ],
)
def test_parties_that_cannot_be(tmp_path, change, said):
    party = parties_in(tmp_path)["ant"]
    with pytest.raises(ConfigError, match=said):
        replace(party, **change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parties": 0}, "--parties is 0"),
        ({"at_least": 4}, "--at-least 4"),
        ({"count": 0}, "--count is 0"),
        ({"seconds": 0}, "--seconds"),
    ],
)
def test_servers_that_cannot_be(tmp_path, change, said):
    with pytest.raises(ConfigError, match=said):
        replace(server_in(tmp_path), **change)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"method": "dp-merf"}, "sps-g"), ({"generation": "somehow"}, "--generation is 'somehow'")],
)
def test_agreements_that_cannot_be(tmp_path, change, said):
    parties_in(tmp_path)
    server = replace(server_in(tmp_path), **change)
    with pytest.raises(ConfigError, match=said):
        server.agreement(server.public_images())


def test_an_encoder_that_private_images_teach_cannot_be_shared(tmp_path):
    parties = parties_in(tmp_path)
    server = replace(server_in(tmp_path), encoder="private")
    with pytest.raises(ConfigError, match="one party's images"):
        conduct(server, directly(parties), Audience())


def test_a_servers_folder_holds_one_federation(tmp_path):
    parties = parties_in(tmp_path)
    conduct(server_in(tmp_path), directly(parties), Audience())
    with pytest.raises(ConfigError, match="count is another"):
        conduct(server_in(tmp_path, count=31), directly(parties), Audience())


@pytest.mark.parametrize("words", ["[]", "{", '{"party": "a"}', '{"party": "a", "refusal": "X"}'])
def test_words_that_are_none(words):
    with pytest.raises(DataError, match="Node 3"):
        Answer.read(words, {}, "Node 3")


def test_parties_as_one_types_them(tmp_path):
    common = {"public": "digits", "epsilon": 1.0, "delta": 1e-5, "relation": "add-remove"}
    found = simulated_parties(["a=x.npz", "b=y.npz,epsilon=2,ledger=l.db"], common, tmp_path)
    assert [(each.name, each.data, each.epsilon) for each in found] == [
        ("a", "x.npz", 1.0),
        ("b", "y.npz", 2.0),
    ]
    assert Party.from_json(found[1].to_json()) == found[1]
    for word, said in (("a", "NAME=PATH"), ("a=x,rows=3", "'rows'"), ("a=x,epsilon=z", "number")):
        with pytest.raises(ConfigError, match=said):
            simulated_parties([word], common, tmp_path)


def test_seeded_parties_of_a_simulation_have_noise_of_their_own(tmp_path):
    common = {"public": "digits", "epsilon": 1.0, "delta": 1e-5, "relation": "add-remove"}
    found = simulated_parties(["a=x", "b=y"], {**common, "noise_seed": 7}, tmp_path)
    assert [each.noise_seed for each in found] == [7, 8]


def test_a_certificate_that_was_edited_is_refused(tmp_path):
    parties = parties_in(tmp_path)
    result = conduct(server_in(tmp_path), directly(parties), Audience())
    body = result.certificate.to_json()
    body["parties"]["ant"]["epsilon"] = 0.01
    with pytest.raises(PrivacyError, match="party 'ant' promises"):
        FederatedCertificate.from_json(body)
    for bad in ({}, [], {**body, "schema": "x/1"}):
        with pytest.raises(PrivacyError):
            FederatedCertificate.from_json(bad)


def test_trap_two_parties_of_the_same_rows_are_refused(tmp_path):
    common = {"public": "p.npz", "epsilon": 1.0, "delta": 1e-5, "relation": "add-remove"}
    with pytest.raises(ConfigError, match="--party b has the data of a"):
        simulated_parties(["a=x.npz", f"b={Path.cwd() / 'x.npz'}"], common, tmp_path)


def test_a_folder_keeps_that_noise_was_seeded_and_not_by_what(tmp_path):
    party = replace(parties_in(tmp_path)["ant"], noise_seed=7, declared_size=33.3)
    ask, _ = first_ask(server_in(tmp_path))
    answer(party, ask)
    kept = json.loads((Path(party.out) / "config.json").read_text())["party"]
    assert (kept["noise_seed"], kept["seeded"], kept["declared_size"]) == (None, True, 33.0)
