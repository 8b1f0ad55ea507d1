import numpy as np
import pytest

from privet.data import load
from privet.errors import ConfigError, DataError

datasets = pytest.importorskip("datasets")


@pytest.fixture
def dataset(pixels):
    datasets.disable_progress_bars()
    names = datasets.ClassLabel(names=["cat", "dog"])
    features = datasets.Features(image=datasets.Image(), label=names)
    rows = {"image": list(pixels()), "label": [0, 1] * 3}
    return datasets.Dataset.from_dict(rows, features=features)


def test_a_dataset(tmp_path, dataset, pixels):
    dataset.save_to_disk(tmp_path / "set")
    data = load(tmp_path / "set")
    assert np.array_equal(data.images, pixels())
    assert data.class_names == ("cat", "dog")
    with pytest.raises(DataError, match="has no parts"):
        load(tmp_path / "set", part="train")


def test_one_split_of_several(tmp_path, dataset):
    both = datasets.DatasetDict(train=dataset, test=dataset.select([4, 1]))
    both.save_to_disk(tmp_path / "set")
    assert len(load(tmp_path / "set")) == 6
    assert load(tmp_path / "set", part="test").labels.tolist() == [0, 1]
    with pytest.raises(DataError, match="has no part 'half'; choose train or test with --part"):
        load(tmp_path / "set", part="half")


def test_refuses_a_damaged_folder(tmp_path, dataset):
    dataset.save_to_disk(tmp_path / "set")
    (tmp_path / "set" / "state.json").write_text("{")
    with pytest.raises(DataError, match="set is not a readable folder saved by datasets"):
        load(tmp_path / "set")


def test_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "dataset_info.json").write_text("{}")
    monkeypatch.setattr("privet.data.saved.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'privet\[datasets\]'"):
        load(tmp_path)
