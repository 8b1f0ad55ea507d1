import numpy as np
import pytest

from privet.errors import ConfigError, DataError
from privet.privacy.splits import Split
from privet.runs.data_choice import DataChoice, part_of
from privet.runs.sets import read_sets
from privet.runs.train_config import Asked


@pytest.fixture
def both(tmp_path):
    """A file with a part to train on and a part to test on."""
    rng = np.random.default_rng(0)
    path = tmp_path / "both.npz"
    np.savez(
        path,
        x_train=rng.integers(0, 256, (60, 8, 8), np.uint8),
        y_train=np.arange(60) % 3,
        x_test=rng.integers(0, 256, (30, 8, 8), np.uint8),
        y_test=np.arange(30) % 3,
    )
    return str(path)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, None),
        ("0.1", 0.1),
        ("100", 100),
        ("1e-1", 0.1),
        ("a.npz", "a.npz"),
        ("digits", "digits"),
    ],
)
def test_a_part_is_a_share_a_count_or_a_source(text, part):
    assert part_of(text) == part
    assert type(part_of(text)) is type(part)


def test_shares_are_split_off_the_private_images():
    sets = read_sets(DataChoice(source="digits", public="0.1", test="97"))
    assert (len(sets.private), len(sets.public), len(sets.test)) == (1520, 180, 97)
    again = read_sets(DataChoice(source="digits", public="0.1", test="97", seed=1))
    assert not np.array_equal(again.test.images[:], sets.test.images[:])


def test_the_test_part_of_the_private_file_is_another_set(both):
    sets = read_sets(DataChoice(source=both, test=both))
    assert (len(sets.private), len(sets.test)) == (60, 30)
    with pytest.raises(ConfigError, match="--public names the private data themselves"):
        read_sets(DataChoice(source=both, public=both))


def test_a_file_without_parts_is_never_its_own_test_set(tmp_path):
    path = tmp_path / "only.npz"
    np.savez(path, x_test=np.zeros((30, 8, 8), np.uint8), y_test=np.arange(30) % 3)
    with pytest.raises(ConfigError, match="--test names the private data themselves"):
        read_sets(
            DataChoice(source=str(path), test=str(tmp_path / ".." / tmp_path.name / "only.npz"))
        )


def test_all_sets_are_brought_to_one_shape(both):
    sets = read_sets(DataChoice(source="digits", public=both, resize="16", channels="rgb"))
    assert sets.private.image_shape == sets.public.image_shape == (16, 16, 3)
    [note] = sets.notes
    assert "Classes have numbers for names" in note
    sets = read_sets(DataChoice(source=both, public="digits", resize="9x10"))
    assert sets.public.image_shape == (9, 10, 1)


def test_classes_are_the_same_by_name_or_number(tmp_path):
    from PIL import Image

    def folder(name, classes):
        for label in classes:
            (tmp_path / name / label).mkdir(parents=True)
            for number in range(3):
                Image.new("L", (8, 8)).save(tmp_path / name / label / f"{number}.png")
        return str(tmp_path / name)

    cats = folder("private", ["cat", "dog"])
    same, other = folder("same", ["cat", "dog"]), folder("other", ["ant", "bee"])
    assert read_sets(DataChoice(source=cats, public=same)).public_classes is None
    assert read_sets(DataChoice(source=cats, public=other)).public_classes == 2
    assert read_sets(DataChoice(source=cats, public="digits")).public_classes == 10
    assert not read_sets(DataChoice(source=cats, public=same)).notes
    numbers = folder("numbers", ["0", "1"])
    [note] = read_sets(DataChoice(source=numbers, public=other)).notes
    assert "in their order, ant for 0, bee for 1." in note


def test_labels_are_needed(tmp_path):
    np.savez(tmp_path / "bare.npz", x=np.zeros((9, 8, 8), np.uint8))
    with pytest.raises(DataError, match="has no labels"):
        read_sets(DataChoice(source=str(tmp_path / "bare.npz")))


@pytest.mark.parametrize(
    ("words", "aside"),
    [
        ({}, ""),
        ({"seed": 3}, ""),
        ({"public": "other.npz"}, ""),
        ({"public": "0.10", "seed": 3}, "--public 0.1 --seed 3"),
        ({"public": "100", "test": "0.2"}, "--public 100 --test 0.2 --seed 0"),
    ],
)
def test_a_split_says_what_is_not_private(words, aside):
    assert DataChoice(source="digits", **words).split.aside == aside


def test_a_split_names_users_and_all_other_rows_that_are_not_private():
    choice = DataChoice(
        source="both.npz", public="p.npz", test="both.npz", synthetic="s", user="who"
    )
    assert choice.split == Split(source="both.npz", user="who", others=("p.npz", "both.npz", "s"))


def test_a_digest_of_what_is_set_aside_tells_other_rows(tmp_path):
    def aside(count=60, **words):
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (count, 8, 8), np.uint8)
        np.savez(tmp_path / "a.npz", images=images, labels=np.arange(count) % 3)
        return read_sets(DataChoice(source=str(tmp_path / "a.npz"), **words)).aside

    both = aside(public="0.2", test="6")
    assert both == aside(public="0.2", test="6")
    others = [
        aside(),
        aside(public="0.2"),
        aside(public="0.2", test="6", seed=1),
        aside(90, public="0.2", test="6"),
        aside(public="0.2", test="6", resize="9"),
    ]
    assert both not in others
    assert aside() == ""


def test_no_more_than_two_digits_of_a_declared_size_are_kept(tmp_path):
    assert Asked(data="digits", declared_size=1437).placed().declared_size == 1400
