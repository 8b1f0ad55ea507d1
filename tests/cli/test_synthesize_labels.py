"""Labels of synthetic sets: in proportion, soft, or none."""

import json

import numpy as np
import pytest
import torch

from privet.data import load
from tests.cli.runs import SYSTEMS, names, read


@pytest.fixture
def save(tmp_path):
    def write(name, counts, labelled=True):
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(len(counts)), counts)
        pixels = rng.integers(0, 100, (len(labels), 8, 8, 1)) + 40 * labels[:, None, None, None]
        columns = {"x": pixels.astype(np.uint8), **({"y": labels} if labelled else {})}
        np.savez(tmp_path / name, **columns)
        return tmp_path / name

    return write


@pytest.fixture
def make(privet, tmp_path, one_thread, encoder):
    def run(data, words, out="run", count=60):
        return privet(
            f"synthesize {data} --epsilon 20 --delta 1e-5 --count {count} --encoder {encoder} "
            f"--out {tmp_path / out} {words}"
        )

    return run


class TestProportions:
    @pytest.mark.parametrize("method", ["dp-merf", "sps", "sps-g"])
    def test_classes_are_as_large_as_released(self, make, save, tmp_path, method):
        data, public = save("data.npz", [300, 60, 30]), save("public.npz", [20, 20, 20])
        words = f"--public {public} --method {SYSTEMS[method]} --classes released --noise-seed 1"
        done = make(data, words)
        assert done.code == 0, done.err
        labels = load(tmp_path / "run" / "synthetic").labels
        # SPS-G clips images of different classes by different factors, which count as much less.
        assert np.abs(np.bincount(labels, minlength=3) - [46, 9, 5]).max() <= 6
        assert np.abs(np.bincount(labels[:20], minlength=3) - [15, 3, 2]).max() <= 3

    def test_they_stay_so_when_a_set_grows(self, make, save, privet, tmp_path):
        words = f"--method {SYSTEMS['dp-merf']} --classes released --noise-seed 1"
        data = save("data.npz", [300, 60, 30])
        assert make(data, words).code == 0
        more = privet(f"synthesize --out {tmp_path / 'run'} --resume --count 130 --noise-seed 1")
        assert more.code == 0, more.err
        assert make(data, words, "whole", count=130).code == 0
        ours, theirs = (load(tmp_path / out / "synthetic") for out in ("run", "whole"))
        assert (ours.labels == theirs.labels).all()
        assert (ours.images[:] == theirs.images[:]).all()
        assert read(tmp_path / "run" / "config.json")["config"]["classes"] == "released"


class TestSoftLabels:
    @pytest.mark.parametrize("method", ["sps", "sps-g"])
    def test_a_column_of_probabilities(self, make, save, tmp_path, method):
        import pyarrow.parquet as pq

        data, public = save("data.npz", [100, 100, 100]), save("public.npz", [20, 20, 20])
        words = f"--public {public} --method {SYSTEMS[method]} --soft-labels"
        done = make(data, words)
        assert done.code == 0, done.err
        place = tmp_path / "run" / "synthetic"
        for path in place.glob("part-*.parquet"):
            column = pq.read_table(path).column("probabilities")
            found = np.array(column.to_pylist(), np.float32)
            assert found.shape[1] == 3
            np.testing.assert_allclose(found.sum(1), 1, atol=1e-3)
        assert len(load(place)) == 60

    def test_datasets_reads_them(self, make, save, tmp_path):
        datasets = pytest.importorskip("datasets")
        data, public = save("data.npz", [100, 100, 100]), save("public.npz", [20, 20, 20])
        words = f"--public {public} --method {SYSTEMS['sps-g']} --soft-labels"
        assert make(data, words).code == 0
        files = str(tmp_path / "run" / "synthetic" / "*.parquet")
        found = datasets.load_dataset(
            "parquet", data_files=files, cache_dir=str(tmp_path / "cache"), split="train"
        )
        assert set(found.column_names) == {"image", "label", "probabilities"}
        assert len(found[0]["probabilities"]) == 3


class TestWithoutLabels:
    """Images without labels are of one class; the generator is unconditional."""

    @pytest.mark.parametrize("method", list(SYSTEMS))
    def test_every_method(self, make, save, tmp_path, method):
        data = save("data.npz", [100, 100], labelled=False)
        public = save("public.npz", [30, 30], labelled=False)
        settings = SYSTEMS[method].replace("agreement=false", "agreement=true")
        done = make(data, f"--public {public} --method {settings} --declared-size 200 --png")
        assert done.code == 0, done.err
        found = load(tmp_path / "run" / "synthetic")
        assert found.labels is None
        assert found.images.shape == (60, 8, 8, 1)
        assert read(tmp_path / "run" / "config.json")["config"]["class_names"] == []
        assert names(tmp_path / "run" / "png") >= {"images"}
        weights = tmp_path / "run" / "steps" / "generator.safetensors"
        if weights.exists():
            from safetensors.torch import load_file

            assert load_file(weights)["stem.weight"].shape[1] == 32 + 1
        counts = next((tmp_path / "run" / "releases").iterdir())
        from safetensors.torch import load_file

        assert load_file(counts)["counts.mean"].shape == (1, 1)
        assert torch.isfinite(load_file(counts)["counts.mean"]).all()

    def test_public_labels_still_teach_an_encoder(self, privet, save, tmp_path, one_thread):
        data, public = save("data.npz", [50], labelled=False), save("public.npz", [30, 30])
        done = privet(
            f"synthesize {data} --public {public} --epsilon 5 --delta 1e-5 --count 10 "
            f"--encoder conv:epochs=1 --method {SYSTEMS['dp-mepf']} --out {tmp_path / 'run'}"
        )
        assert done.code == 0, done.err
        assert load(tmp_path / "run" / "synthetic").labels is None

    def test_it_is_foretold(self, make, save):
        data = save("data.npz", [100, 100], labelled=False)
        shown = make(data, f"--method {SYSTEMS['dp-merf']} --dry-run --json")
        assert shown.code == 0, shown.err
        assert json.loads(shown.out)["coordinates"] == 20 + 1
