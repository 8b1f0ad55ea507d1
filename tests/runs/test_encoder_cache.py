"""Encoders of public images are trained once for all runs; those of private images are not kept."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from privet.models import ConvEncoder
from privet.public import PublicRows
from privet.recipes.encoders import Several
from privet.recipes.private_encoders import PrivatelyTrained, private_encoder
from privet.recipes.public_encoders import Pretrained, Procedural, PublicTraining
from privet.recipes.releases import NoMemory
from privet.runs import encoder_cache
from privet.runs.encoder_cache import CachedEncoders, cache_folder, key_of
from tests.recipes.small import CLASSES, SHAPE, DictMemory, hedge, pictures

CHOICE = Pretrained(epochs=1)
LESSONS = PrivatelyTrained(epochs=0.2, width=4, groups=2)


def rows(count=20, seed=0):
    found = pictures(count, seed)
    return PublicRows(torch.from_numpy(found["images"]), torch.from_numpy(found["labels"]))


def training(choice=CHOICE, public=None, shape=SHAPE):
    return PublicTraining(choice, shape, public or rows(), lambda *_: None)


class Runs:
    """One run after another, with the same cache."""

    def __init__(self, folder):
        self.folder, self.epochs, self.notes = folder, [], []

    def made(self, choice=CHOICE, memory=None, public=None):
        """The weights of another run's encoder."""
        self.epochs.clear()
        self.notes.clear()
        cached = CachedEncoders(memory or NoMemory(), self.folder, self.notes.append)
        encoder = choice.made(
            SHAPE, public or rows(), cached, lambda *each: self.epochs.append(each)
        )
        return torch.cat([each.flatten() for each in encoder.parameters()])

    @property
    def files(self):
        return sorted(self.folder.iterdir()) if self.folder.exists() else []


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "above" / "cache")


class TestFolder:
    @pytest.mark.parametrize(
        ("environment", "folder"),
        [
            ({"PRIVET_CACHE": "/one", "XDG_CACHE_HOME": "/two"}, "/one"),
            ({"PRIVET_CACHE": "~/one"}, "/her/one"),
            ({"XDG_CACHE_HOME": "/two"}, "/two/privet"),
            ({"XDG_CACHE_HOME": "relative"}, "/her/.cache/privet"),
            ({"XDG_CACHE_HOME": ""}, "/her/.cache/privet"),
            ({}, "/her/.cache/privet"),
        ],
    )
    def test_where_it_is(self, monkeypatch, environment, folder):
        monkeypatch.setenv("HOME", "/her")
        assert cache_folder(environment) == Path(folder)

    def test_there_may_be_none(self, monkeypatch):
        assert cache_folder({"PRIVET_CACHE": "", "XDG_CACHE_HOME": "/two"}) is None
        assert cache_folder() is None  # of all other tests

        def homeless():
            raise RuntimeError

        monkeypatch.setattr(Path, "home", homeless)
        assert cache_folder({}) is None


class TestKey:
    def test_everything_that_decides_the_weights_is_in_it(self):
        public, brighter, other = rows(), rows(), rows()
        brighter.inputs[3, 2, 1, 0] += 1
        other.targets[3] = (other.targets[3] + 1) % CLASSES
        wide = PublicRows(public.inputs.reshape(20, 4, 16, 1), public.targets)
        trainings = [
            training(),
            *(training(replace(CHOICE, **{name: value})) for name, value in OTHERS.items()),
            training(Procedural(epochs=1)),
            training(public=rows(19)),
            training(public=brighter),
            training(public=other),
            training(public=wide, shape=(4, 16, 1)),
        ]
        assert len({key_of(each) for each in trainings}) == len(trainings)

    def test_nothing_else_is(self):
        turned = rows()
        strided = turned.inputs.transpose(1, 2).contiguous().transpose(1, 2)
        same = training(public=PublicRows(strided, turned.targets))
        assert key_of(same) == key_of(replace(same, told=print)) == key_of(training())

    def test_another_version_has_another(self, monkeypatch):
        before = key_of(training())
        monkeypatch.setattr(encoder_cache, "SCHEMA", "privet.encoder/2")
        assert key_of(training()) != before


OTHERS = {
    **{"epochs": 2, "learning_rate": 0.2, "batch_size": 64},
    **{"invert": False, "shift": 1, "seed": 1},
}


class TestFound:
    def test_it_is_trained_once_for_all_runs(self, runs):
        first = runs.made()
        assert (runs.epochs, runs.notes) == ([(1, 1)], [])
        [file] = runs.files
        assert file.name == f"encoder-{key_of(training())}.safetensors"
        assert torch.equal(runs.made(), first)
        assert runs.epochs == []
        [note] = runs.notes
        assert note == f"The encoder learned from the same images before, into {file}."

    def test_it_is_what_would_have_been_trained(self, runs):
        runs.made()
        trained = training()()
        found = load_file(runs.files[0])
        assert found.keys() == trained.keys()
        assert all(torch.equal(found[name], each) for name, each in trained.items())

    def test_a_runs_own_memory_comes_first(self, runs):
        memory = DictMemory()
        first = runs.made(memory=memory)
        assert memory.made == ["encoder"]
        runs.files[0].write_bytes(b"damaged")
        assert torch.equal(runs.made(memory=memory), first)
        assert (runs.epochs, runs.notes) == ([], [])
        assert runs.files[0].read_bytes() == b"damaged"

    def test_what_is_found_becomes_the_runs_own(self, runs):
        runs.made()
        memory = DictMemory()
        runs.made(memory=memory)
        assert torch.equal(
            memory.kept["encoder"]["layers.0.0.weight"],
            load_file(runs.files[0])["layers.0.0.weight"],
        )

    def test_other_images_are_another_encoder(self, runs):
        assert not torch.equal(runs.made(), runs.made(public=rows(seed=1)))
        assert len(runs.files) == 2

    def test_several_are_found_each(self, runs):
        runs.made()
        several = Several(
            choices=(CHOICE, Pretrained(epochs=1, seed=1), Procedural(epochs=1, images=2))
        )
        first = runs.made(several)
        assert (len(runs.epochs), len(runs.notes), len(runs.files)) == (2, 1, 3)
        assert torch.equal(runs.made(several), first)
        assert (len(runs.epochs), len(runs.notes)) == (0, 3)


def without_metadata(tensors, path):
    save_file(tensors, path)


def of_another_version(tensors, path):
    save_file(tensors, path, {"schema": "privet.encoder/0", "key": key_of(training())})


def of_other_images(tensors, path):
    save_file(
        tensors, path, {"schema": "privet.encoder/1", "key": key_of(training(public=rows(9)))}
    )


def right(tensors, path):
    save_file(tensors, path, {"schema": "privet.encoder/1", "key": key_of(training())})


def changed(name, change):
    return lambda tensors, path: right({**tensors, name: change(tensors[name])}, path)


DAMAGES = {
    "cut off": (lambda _, path: path.write_bytes(path.read_bytes()[:-7]), "cannot be read"),
    "empty": (lambda _, path: path.write_bytes(b""), "cannot be read"),
    "pickled": (lambda tensors, path: torch.save(tensors, path), "cannot be read"),
    "nameless": (without_metadata, "of another version, or of other images"),
    "old": (of_another_version, "of another version, or of other images"),
    "exchanged": (of_other_images, "of another version, or of other images"),
    "other layers": (
        lambda _, path: right(ConvEncoder(1, widths=(4, 4)).state_dict(), path),
        "other layers or sizes",
    ),
    "colour": (lambda _, path: right(ConvEncoder(3).state_dict(), path), "other layers or sizes"),
    "less precise": (changed("layers.0.0.weight", torch.Tensor.half), "other layers or sizes"),
    "not finite": (changed("layers.1.0.weight", lambda each: each / 0), "not finite"),
}


class TestTrouble:
    @pytest.mark.parametrize("name", DAMAGES)
    def test_what_is_damaged_or_foreign_is_trained_again_and_replaced(self, runs, name):
        first = runs.made()
        [file] = runs.files
        damage, sentence = DAMAGES[name]
        damage({name: each.clone() for name, each in load_file(file).items()}, file)
        assert torch.equal(runs.made(), first)
        assert runs.epochs == [(1, 1)]
        [note] = runs.notes
        assert note.startswith(str(file))
        assert sentence in note
        assert note.endswith(". The encoder is trained again.")
        assert torch.equal(runs.made(), first)
        assert (runs.epochs, runs.files) == ([], [file])

    def test_a_folder_that_cannot_be_written_is_worth_a_note(self, runs):
        runs.folder.parent.mkdir()
        runs.folder.write_text("a file")
        runs.made()
        [note] = runs.notes
        assert "cannot be written" in note
        assert note.endswith(" The encoder is not kept for other runs.")
        assert runs.epochs == [(1, 1)]

    def test_a_draft_that_does_not_get_there_is_taken_away(self, runs, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        runs.made()
        assert (runs.files, len(runs.notes)) == ([], 1)
        assert "does not fit on its disk" in runs.notes[0]

    def test_a_folder_in_the_place_of_the_file(self, runs):
        (runs.folder / f"encoder-{key_of(training())}.safetensors" / "x").mkdir(parents=True)
        runs.made()
        assert [note.split(".")[-2] for note in runs.notes] == [
            " The encoder is trained again",
            " The encoder is not kept for other runs",
        ]
        assert len(runs.files) == 1

    def test_no_cache_is_no_trouble(self, runs, tmp_path):
        runs.folder = None
        runs.made()
        assert (runs.epochs, runs.notes, list(tmp_path.iterdir())) == ([(1, 1)], [], [])


class TestPrivate:
    def test_what_private_images_teach_never_enters(self, runs, tmp_path):
        """Neither its first weights nor the last."""
        runs.made(LESSONS)
        private_encoder(hedge(tmp_path), LESSONS, image_shape=SHAPE, num_classes=CLASSES)
        assert runs.files == []

    def test_only_a_training_on_public_rows_does(self, runs):
        cached = CachedEncoders(DictMemory(), runs.folder, runs.notes.append)
        cached.once("encoder", lambda: ConvEncoder(1).state_dict())
        assert (runs.files, runs.notes) == ([], [])
