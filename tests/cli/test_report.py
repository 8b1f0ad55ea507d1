import json
import re

import numpy as np
import pytest

import privet as library
from privet.cli.app import app
from privet.data import load
from privet.data.shards import write_shard
from privet.errors import PrivetError
from privet.privacy.certificate import nothing_private
from tests.cli.runs import names, read


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
    assert "Loss of " in words
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


def test_other_test_images_are_called_by_their_last_name(privet, trained, tmp_path):
    data = load("digits")
    np.savez(tmp_path / "other.npz", images=data.images[:50], labels=data.labels[:50])
    assert privet(f"evaluate {trained} --test {tmp_path / 'other.npz'}").code == 0
    assert privet(f"report {trained}").code == 0
    assert "50 images (other.npz)" in words_of(trained / "report.html")
    assert str(tmp_path) not in (trained / "report.html").read_text(encoding="utf-8")


def test_few_small_images_are_as_large_as_many(privet, synthesize, tmp_path):
    for count in (10, 400):
        assert synthesize(f"--count {count}", str(count)).code == 0
        assert privet(f"report {tmp_path / str(count)}").code == 0
    few, many = (
        (tmp_path / each / "report.html").read_text(encoding="utf-8") for each in ("10", "400")
    )
    [width] = set(re.findall('width="([0-9]+)" height="8" style="--share:', few))
    [whole] = set(re.findall('width="([0-9]+)" height="8" style="--share:1.0000"', many))
    [share] = set(re.findall("--share:(0.[0-9]+)", few))
    assert int(width) == 8  # nothing but the image
    assert int(whole) * float(share) == pytest.approx(8, abs=0.1)
    assert int(whole) < 300  # so that each can be seen


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
    assert "none guarantee seeded noise: NOT private" in words
    assert "ε = " not in words.partition("Privacy")[0]


def test_images_that_are_not_private_are_not_for_anyone(privet, synthesize, tmp_path):
    assert synthesize("--noise-seed 1", "seeded").code == 0
    assert privet(f"report {tmp_path / 'seeded'}").code == 0
    words = words_of(tmp_path / "seeded" / "report.html")
    assert "They are NOT private" in words
    assert "Anyone may use them" not in words


def edited(path, **changes):
    path.write_text(json.dumps(read(path) | changes))


def asking(kind, folder, out):
    """Everything that tells what a run cost."""
    form = "safetensors" if kind == "model" else "npz"
    return (
        f"report {folder}",
        f"evaluate {folder}",
        f"export {folder} --to {form} --out {out / 'exported.npz'}",
    )


@pytest.fixture(params=["model", "set"])
def run(request):
    kind = request.param
    return kind, request.getfixturevalue("trained" if kind == "model" else "made")


def refused_everywhere(privet, run, tmp_path, code, part):
    kind, folder = run
    before = names(folder)
    for words in asking(kind, folder, tmp_path):
        refused = privet(words)
        assert (refused.code, refused.out, part in refused.err) == (code, "", True), refused
        assert refused.err.count("\n") == 1
    assert names(folder) == before
    assert not list(tmp_path.glob("exported*"))
    with pytest.raises(PrivetError, match=re.escape(part)):
        library.load(folder)


@pytest.mark.parametrize("epsilon", [0.5, 50.0, None])
def test_a_certificate_that_was_edited_is_not_believed(privet, run, tmp_path, epsilon):
    edited(run[1] / "certificate.json", epsilon=epsilon)
    said = "inf" if epsilon is None else f"{epsilon:g}"
    part = f"promises ε = {said}, but its events cost ε = 2: it was edited"
    refused_everywhere(privet, run, tmp_path, 3, part)


def test_an_accountant_that_nobody_knows(privet, run, tmp_path):
    edited(run[1] / "certificate.json", accountant="mine")
    refused_everywhere(privet, run, tmp_path, 3, "names the accountant 'mine'")


def test_private_rows_are_not_talked_away(privet, run, tmp_path):
    (run[1] / "certificate.json").write_text(json.dumps(nothing_private()))
    refused_everywhere(privet, run, tmp_path, 3, "says that no private row was touched, but")


@pytest.mark.parametrize(("content", "code"), [("[1]", 4), ("{}", 3), ('{"sch', 4), ("\xff", 4)])
def test_a_damaged_certificate(privet, run, tmp_path, content, code):
    (run[1] / "certificate.json").write_text(content, encoding="latin-1")
    refused_everywhere(privet, run, tmp_path, code, "ertificate")


def test_a_lost_certificate(privet, run, tmp_path):
    (run[1] / "certificate.json").unlink()
    refused_everywhere(privet, run, tmp_path, 4, "certificate.json is missing")


def test_words_of_a_certificate_that_were_edited_go_nowhere(privet, made, tmp_path):
    edited(made / "certificate.json", statement="nothing to see here")
    assert privet(f"export {made} --to parquet --out {tmp_path / 'shared'}").code == 0
    assert "Whatever anyone learns" in read(tmp_path / "shared" / "certificate.json")["statement"]


def test_a_run_of_another_version(privet, run, tmp_path):
    schema = read(run[1] / "config.json")["schema"].replace("/1", "/9")
    edited(run[1] / "config.json", schema=schema)
    part = f"the layout '{schema}', which this Privet does not know"
    refused_everywhere(privet, run, tmp_path, 4, part)
    command = schema.removeprefix("privet.").removesuffix("/9")
    refused = privet(f"{command} --out {run[1]} --resume")
    assert (refused.code, part in refused.err) == (4, True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda _: {}, "result.json has no '"),
        (lambda result: {**result, "test": {"odd": 1}}, "do not fit together (KeyError('"),
    ],
)
def test_files_that_do_not_fit_together(privet, trained, change, sentence):
    result = read(trained / "result.json")
    (trained / "result.json").write_text(json.dumps(change(result)))
    refused = privet(f"report {trained}")
    assert (refused.code, sentence in refused.err) == (4, True), refused.err
    assert not (trained / "report.html").exists()


@pytest.mark.parametrize("content", ["{", "[1]", '{"schema": "privet.evaluation/9"}'])
def test_an_evaluation_that_cannot_be_read(privet, run, content):
    (run[1] / "evaluation.json").write_text(content)
    refused = privet(f"report {run[1]}")
    assert (refused.code, "run 'privet evaluate' again" in refused.err) == (4, True)
    assert not (run[1] / "report.html").exists()


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
    (trained / "run.json").unlink()
    assert privet(f"report {trained}").code == 0
    words = words_of(trained / "report.html")
    assert "Course of training" not in words
    assert "left for one more release" not in words


def test_a_class_without_images(privet, made):
    for shard in (made / "synthetic").glob("*.parquet"):
        shard.unlink()
    pictures = np.full((4, 8, 8, 1), 9, np.uint8)
    classes = read(made / "config.json")["config"]["class_names"]
    write_shard(made / "synthetic", 0, pictures, np.array([0, 1, 1, 0]), classes)
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
