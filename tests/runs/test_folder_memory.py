"""What a run remembers, and how it knows its releases again."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from privet.errors import DataError
from privet.recipes.releases import PAID_FOR
from privet.release import Embedding, Moments, Part, each_class
from privet.runs.folder_memory import FolderMemory
from privet.runs.run_folder import RunFolder
from tests.recipes.small import CLASSES, SHAPE


def embedding(matrix=None, centre=0.0, size=5):
    matrix = torch.linspace(-1, 1, 64 * size).reshape(64, size) if matrix is None else matrix
    mean = torch.full((CLASSES, size), centre)
    return Embedding(
        features=lambda images: {"z": images.flatten(1).float() @ matrix},
        parts=(
            Part(
                name="z",
                source="z",
                size=size,
                groups=each_class(CLASSES),
                centre=Moments(mean) if centre else None,
            ),
        ),
        num_classes=CLASSES,
        count_weight=0.1,
    )


def blocks(of):
    return {name: each + 1 for name, each in of.zeros().items()}


@pytest.fixture
def memory(tmp_path):
    return FolderMemory(RunFolder(tmp_path), SHAPE)


def never():
    raise AssertionError("made again")


def test_what_was_made_is_read(memory):
    made = {"a": torch.arange(3.0), "n": torch.tensor(2)}
    assert memory.once("step", lambda: made) is made
    found = memory.once("step", never)
    assert found.keys() == made.keys()
    assert all(torch.equal(found[name], each) for name, each in made.items())


def test_a_failure_leaves_nothing(memory, tmp_path):
    with pytest.raises(ZeroDivisionError):
        memory.once("step", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        memory.paid("release", embedding(), lambda: 1 / 0)
    assert list(tmp_path.rglob("*.*")) == []
    assert memory.num_paid == 0


def test_a_release_comes_back_without_its_probe(memory, tmp_path):
    of = embedding()
    made = memory.paid("release", of, lambda: blocks(of))
    found = memory.paid("release", embedding(), never)
    assert found.keys() == made.keys() == of.zeros().keys()
    assert all(torch.equal(found[name], each) for name, each in made.items())
    assert memory.num_paid == 1
    probes = load_file(tmp_path / "releases" / "release.safetensors").keys() - made.keys()
    assert probes == {"probe:z"}


def test_rounding_of_another_machine_is_forgiven(memory):
    matrix = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    memory.paid("release", embedding(matrix), lambda: blocks(embedding()))
    memory.paid("release", embedding(matrix * (1 + 1e-4)), never)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("change", ["another draw", "a sign", "a permutation", "size", "centre"])
def test_another_embedding_is_not(memory, scale, change):
    """However small its numbers are."""
    draw = torch.Generator().manual_seed(0)
    matrix = scale * torch.randn(64, 5, generator=draw)
    other = {
        "another draw": lambda: embedding(scale * torch.randn(64, 5, generator=draw)),
        "a sign": lambda: embedding(matrix * torch.tensor([1, 1, -1, 1, 1])),
        "a permutation": lambda: embedding(matrix[:, [0, 1, 3, 2, 4]]),
        "size": lambda: embedding(matrix[:, :4], size=4),
        "centre": lambda: embedding(matrix, centre=0.3 * scale),
    }[change]()
    memory.paid("release", embedding(matrix), lambda: blocks(embedding()))
    with pytest.raises(DataError, match="released through another encoder or projection"):
        memory.paid("release", other, never)


def test_a_centre_that_moved(memory):
    of = embedding(centre=0.2)
    memory.paid("release", of, lambda: blocks(of))
    memory.paid("release", embedding(centre=0.2001), never)
    with pytest.raises(DataError, match="another encoder or projection"):
        memory.paid("release", embedding(centre=0.25), never)


STATE = {"step": torch.tensor(3), "w": torch.arange(4.0)}


class TestUnfinished:
    @pytest.mark.parametrize("kind", ["once", "learned"])
    def test_what_is_kept_is_there_until_it_is_finished(self, memory, tmp_path, kind):
        def finish():
            if kind == "once":
                return memory.once("thing", lambda: {"w": torch.ones(4)})
            return memory.learned("thing", {"w": torch.zeros(4)}, lambda: {"w": torch.ones(4)})

        assert memory.unfinished("thing") is None
        memory.keep("thing", {"step": torch.tensor(1)})
        memory.keep("thing", STATE)
        found = memory.unfinished("thing")
        assert found.keys() == STATE.keys()
        assert all(torch.equal(found[name], each) for name, each in STATE.items())
        finish()
        assert memory.unfinished("thing") is None
        memory.keep("thing", STATE)  # killed before it was forgotten
        finish()
        assert memory.unfinished("thing") is None

    @pytest.mark.parametrize(
        ("paid", "remedy"), [(False, "remove it, and it begins again"), (True, "put back a copy")]
    )
    def test_what_is_damaged_is_removed_unless_it_was_paid_for(
        self, memory, tmp_path, paid, remedy
    ):
        memory.keep("thing", STATE)
        [file] = (tmp_path / "steps").iterdir()
        file.write_bytes(file.read_bytes()[:20])
        with pytest.raises(DataError, match=remedy):
            memory.unfinished("thing", paid=paid)

    def test_what_was_learned_is_paid_for_and_no_release(self, memory, tmp_path):
        like = {"w": torch.zeros(4)}
        made = memory.learned("encoder", like, lambda: {"w": torch.ones(4)})
        assert torch.equal(memory.learned("encoder", like, never)["w"], made["w"])
        assert (memory.num_paid, memory.learned_names) == (0, {"learned-encoder"})
        [file] = (tmp_path / "releases").iterdir()
        with safe_open(file, framework="pt") as kept:
            assert kept.metadata() == PAID_FOR
        memory.paid("release", embedding(), lambda: blocks(embedding()))
        assert memory.num_paid == 1
        with pytest.raises(DataError, match="other layers or sizes"):
            memory.learned("encoder", {"w": torch.zeros(5)}, never)
