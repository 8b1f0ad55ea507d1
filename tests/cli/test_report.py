import json
import re

import numpy as np
import pytest

from privet.cli.app import app
from privet.data.shards import write_shard
from tests.cli.runs import read


@pytest.fixture
def trained(train, tmp_path):
    assert train("--epochs 1").code == 0
    return tmp_path / "run"


@pytest.fixture
def made(synthesize, tmp_path):
    assert synthesize("--test 100", "set").code == 0
    return tmp_path / "set"


def words_of(path):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8")))


def test_a_page_about_a_model(privet, trained):
    result = privet(f"report {trained} --json")
    assert (result.code, result.err) == (0, "")
    body = json.loads(result.out)
    page = trained / "report.html"
    assert body == {"report": str(page), "runs": [str(trained)], "bytes": page.stat().st_size}
    words, found = words_of(page), read(trained / "result.json")
    for part in (
        "A private classifier",
        f"{found['test']['accuracy']:.1%} test accuracy",
        f"{found['test']['worst_class']:.1%} worst class",
        "ε = 2 was spent at δ = 1e-05 (add or remove one example, PLD)",
        "Poisson-subsampled Gaussian step",
        "left for one more release",
        "privet train digits --method dp-sgd",
        "training.clip_norm",
        read(trained / "certificate.json")["statement"],
    ):
        assert part in words, part


def test_a_page_about_images(privet, made):
    assert privet(f"report {made}").out.startswith(f"report  {made / 'report.html'}\n")
    words = words_of(made / "report.html")
    assert "A private synthetic data set" in words
    assert "'privet evaluate'" in words.replace("&#39;", "'")
    count = read(made / "result.json")["images"]
    assert f"--count {count}" in words
    text = (made / "report.html").read_text(encoding="utf-8")
    assert len(re.findall('alt="[0-9]+ synthetic images of class [0-9]', text)) == 10
    assert str(made) not in text  # a page is passed on: it does not say where it was made


def test_what_was_evaluated_is_told(privet, made, trained, tmp_path):
    assert privet(f"evaluate {made}").code == 0
    assert privet(f"evaluate {trained}").code == 0
    assert privet(f"report {made}").code == 0
    words, found = words_of(made / "report.html"), read(made / "evaluation.json")
    assert f"{found['cas']:.1%} test accuracy" in words
    for part in ("Fréchet distance", "KID", "precision", "coverage", "0 to 100%", "taught by"):
        assert part in words, part
    assert privet(f"report {trained}").code == 0
    assert "calibration error" in words_of(trained / "report.html")


def test_a_page_is_made_anew(privet, trained):
    (trained / "report.html").write_text("old")
    assert privet(f"report {trained}").code == 0
    assert "old" not in (trained / "report.html").read_text(encoding="utf-8")[:3]


def test_several_runs_beside_each_other(privet, trained, made, tmp_path):
    page = tmp_path / "page.html"
    assert privet(f"report {trained} {made} {made} --out {page}").code == 0
    words = words_of(page)
    assert "3 runs beside each other" in words
    assert "set (2)" in words
    assert "set (3)" in words
    before = page.read_bytes()
    refused = privet(f"report {trained} {made} --out {page}")
    assert (refused.code, "exists already" in refused.err) == (2, True)
    assert page.read_bytes() == before
    assert privet(f"report {trained} {made} --out {page} --force").code == 0
    assert page.read_bytes() != before


def test_a_run_without_noise_of_its_own_is_told_as_such(privet, train, tmp_path):
    assert train("--noise-seed 1", "seeded").code == 0
    assert privet(f"report {tmp_path / 'seeded'}").code == 0
    words = words_of(tmp_path / "seeded" / "report.html")
    assert "A classifier, NOT private" in words
    assert "none guarantee" in words
    assert "ε = " not in words.partition("Privacy")[0]


def edited(path, **changes):
    path.write_text(json.dumps(read(path) | changes))


def test_a_certificate_that_was_edited_is_not_believed(privet, trained):
    edited(trained / "certificate.json", epsilon=0.5)
    refused = privet(f"report {trained}")
    assert refused.code == 3
    assert "promises ε = 0.5, but its events cost ε = 2" in refused.err
    assert not (trained / "report.html").exists()
    edited(trained / "certificate.json", epsilon=2.0, accountant="mine")
    assert privet(f"report {trained}").code == 3


def test_a_lost_certificate(privet, trained):
    (trained / "certificate.json").unlink()
    refused = privet(f"report {trained}")
    assert (refused.code, "certificate.json is missing" in refused.err) == (4, True)


def test_a_run_of_another_version(privet, trained):
    edited(trained / "config.json", schema="privet.train/9")
    refused = privet(f"report {trained}")
    assert refused.code == 4
    assert "the layout 'privet.train/9', which this Privet does not know" in refused.err


def test_a_run_that_is_not_done(privet, trained):
    (trained / "result.json").unlink()
    refused = privet(f"report {trained}")
    assert (refused.code, "is not done: go on with privet train" in refused.err) == (2, True)


@pytest.mark.parametrize("content", ['{"step": 1}\n{"st', '{"epoch": 1}\n', "[1]\n", "\xff\n"])
def test_damaged_metrics(privet, trained, content):
    (trained / "metrics.jsonl").write_text(content, encoding="latin-1")
    refused = privet(f"report {trained}")
    assert (refused.code, "metrics.jsonl is damaged" in refused.err) == (4, True)


def test_a_page_without_curves_or_ledger(privet, trained):
    (trained / "metrics.jsonl").unlink()
    (trained / "ledger.db").unlink()
    assert privet(f"report {trained}").code == 0
    words = words_of(trained / "report.html")
    assert "Course of training" not in words
    assert "left for one more release" not in words


def test_a_class_without_images(privet, made):
    for shard in (made / "synthetic").glob("*.parquet"):
        shard.unlink()
    pictures = np.full((4, 8, 8, 1), 9, np.uint8)
    names = read(made / "config.json")["config"]["class_names"]
    write_shard(made / "synthetic", 0, pictures, np.array([0, 1, 1, 0]), names)
    assert privet(f"report {made}").code == 0
    assert words_of(made / "report.html").count("no images") == 8


@pytest.mark.parametrize("where", ["nowhere", "empty"])
def test_no_run(privet, tmp_path, where):
    (tmp_path / "empty").mkdir()
    refused = privet(f"report {tmp_path / where}")
    assert (refused.code, "holds no run of" in refused.err) == (2, True)


def test_a_place_that_is_none(privet, trained, tmp_path):
    refused = privet(f"report {trained} --out {tmp_path / 'no' / 'page.html'}")
    assert (refused.code, "is no folder" in refused.err) == (2, True)


def test_it_is_among_the_commands():
    assert "report" in {each.name for each in app.registered_commands}
