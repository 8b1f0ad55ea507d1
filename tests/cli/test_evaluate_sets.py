"""`privet evaluate` on runs of `privet synthesize`."""

import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from privet.data import ImageSet, load
from privet.privacy.certificate import NOTHING_PRIVATE
from privet.recipes.set_panel import DOOR
from privet.runs.run_folder import RunFolder
from privet.runs.set_evaluation import evaluate_set
from privet.share import panel
from tests.cli.runs import SYSTEMS, names, read

EDM = "--method edm:iterations=2,batch_size=8,widths=8-8,steps=2,at_once=20 --count 30"
RELEASE = f"--method {SYSTEMS['dp-merf']} --epsilon 2 --delta 1e-5 --count 60"


@pytest.fixture(autouse=True)
def hurried(monkeypatch, one_thread):
    monkeypatch.setattr(panel, "_LEAST_STEPS", 2)


@pytest.fixture
def made(privet, tmp_path):
    """The folder of a finished run."""

    def run(words, data="digits"):
        done = privet(f"synthesize {data} {words} --force --out {tmp_path / 'run'}")
        assert done.code == 0, done.err
        return tmp_path / "run"

    return run


@pytest.fixture
def evaluated(privet):
    def run(words):
        done = privet(f"evaluate {words} --json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    return run


@pytest.fixture
def saved(tmp_path):
    """A file with some digits."""

    def write(name, first, last, labels=True):
        digits, rows, path = load("digits"), slice(first, last), tmp_path / f"{name}.npz"
        columns = {"x": np.asarray(digits.images[rows]), "y": digits.labels[rows]}
        np.savez(path, **columns if labels else {"x": columns["x"]})
        return path

    return write


def test_public_images(evaluated, made):
    out = made(f"{EDM} --test 100")
    found = evaluated(out)
    assert (found["synthetic_count"], found["test_count"], found["test_images"]) == (30, 100, 50)
    assert (found["test"], found["guarantee"]) == ("set aside by the run", NOTHING_PRIVATE)
    assert found["extractor"] == "cnn, taught by 50 other test images"
    assert found["seen_images"] == 1697
    assert 1 <= found["inception"] <= 10
    for name in ("precision", "recall", "coverage", "memorisation", "copies", "cas"):
        assert 0 <= found[name] <= 1
    assert len(found["cas_by_class"]) == len(found["class_names"]) == 10
    worst = found["class_names"].index(found["cas_worst_class_name"])
    assert found["cas_by_class"][worst] == found["cas_worst_class"] == min(found["cas_by_class"])
    assert (found["kid_subsets"], found["kid_subset_size"]) == (100, 15)
    assert min(found["kid_std"], found["mmd_length_scale"]) > 0
    assert found["density"] >= 0
    assert found["picture"] == str(out / "memorisation.png")
    with Image.open(out / "memorisation.png") as picture:
        assert picture.width > 7 * 32  # an image, a gap and five neighbours
        assert picture.height > 8 * 32
    kept = read(out / "evaluation.json")
    words = {"schema": "privet.evaluation/1", "kind": "set"}
    assert kept == {**words, **found, "picture": "memorisation.png"}
    assert str(out) not in (out / "evaluation.json").read_text()
    assert evaluated(out) == found


def test_a_release_in_words(privet, made):
    shown = privet(f"evaluate {made(f'{RELEASE} --test 100')}").out
    for part in (
        "100 (set aside by the run)",
        "cnn, taught by 50 other test images",
        "(60 synthetic and 50 test images)",
        "(100 subsets, each of 25 of 60 synthetic and of 50 test images)",
        "(60 synthetic and 50 test images, Gaussian kernel of length",
        "of 50 test images lie among 60 synthetic ones",
        "(60 synthetic among 50 test images; about 1 if they are alike)",
        "of 50 test images have one of 60 synthetic ones near them",
        "on 100 test images, by a CNN that learned from 60 synthetic ones alone",
        "worst class",
        "  9 ",
        "ε = 2 at δ = 1e-05 (add or remove one example, PLD)",
    ):
        assert part in shown
    assert "memorisation" not in shown  # nothing was public
    assert re.search(r"worst class +\d+\.\d%: \d\n", shown)


@pytest.mark.parametrize("words", [EDM, RELEASE])
def test_more_images_are_to_be_evaluated_again(privet, evaluated, made, words):
    out = made(f"{words} --test 100")
    evaluated(out)
    assert privet(f"synthesize --resume --out {out} --png").code == 0
    assert (out / "evaluation.json").is_file()  # the same images
    assert privet(f"synthesize --resume --out {out} --count 90").code == 0
    assert not {"evaluation.json", "memorisation.png"} & names(out)
    assert evaluated(out)["synthetic_count"] == 90
    assert read(out / "evaluation.json")["synthetic_count"] == 90


def test_a_new_run_leaves_nothing_of_it(evaluated, made):
    evaluated(made(f"{RELEASE} --test 100"))
    assert "evaluation.json" not in names(made(RELEASE))


def test_all_that_takes_long_tells_how_far_it_is(made):
    told = {}
    evaluate_set(
        made(f"{RELEASE} --test 100"),
        progress=lambda name: lambda done, total: told.setdefault(name, []).append((done, total)),
    )
    assert told.keys() == {"extractor", "images", "CNN"}
    for steps in told.values():
        assert steps[-1][0] == steps[-1][1]


def test_a_folder_in_use_is_left_alone(privet, made):
    out = made(f"{RELEASE} --test 100")
    with RunFolder(out, "synthesize").claimed():
        refused = privet(f"evaluate {out}")
    assert (refused.code, "in use by a running process" in refused.err) == (2, True)


def test_a_release_may_repeat_its_public_images(evaluated, made, saved):
    out = made(f"{RELEASE} --test 100 --public 200")
    assert evaluated(out)["seen_images"] == 200
    assert (out / "memorisation.png").is_file()
    assert (
        evaluated(made(f"{RELEASE} --test 100 --public {saved('public', 0, 40)}"))["seen_images"]
        == 40
    )
    assert evaluated(made(f"{RELEASE} --test 100"))["seen_images"] is None
    assert not (out / "memorisation.png").exists()


def test_private_images_are_not_needed(evaluated, made, saved):
    private, public = saved("private", 0, 600), saved("public", 600, 700)
    test = saved("test", 700, 800)
    out = made(f"{RELEASE} --public {public} --test {test}", private)
    before = evaluated(out)
    private.unlink()
    assert evaluated(out) == before
    assert before["seen_images"] == 100
    assert evaluated(f"{out} --test {saved('other', 800, 850)}")["test_count"] == 50


def test_private_images_beside_test_images_are_of_no_account(privet, evaluated, made, saved):
    path = saved("everything", 0, 250)
    out = made(f"{RELEASE} --test 100 --public 50", path)
    before = evaluated(out)
    columns = dict(np.load(path))
    numbers = np.arange(250, dtype=np.uint8).reshape(-1, 1, 1, 1)
    split = ImageSet(numbers, columns["y"]).split(public=50, test=100, seed=0)
    columns["x"][split.private.images.ravel()] = 0
    np.savez(path, **columns)
    assert evaluated(out) == before
    columns["x"][split.test.images.ravel()] = 0
    np.savez(path, **columns)
    assert "are not those of the run" in privet(f"evaluate {out}").err


def test_public_images_that_are_gone_leave_memorisation_out(privet, made, saved):
    path = saved("public", 0, 200)
    out = made(EDM, path)
    path.unlink()
    done = privet(f"evaluate {out} --test {saved('test', 300, 400)} --json")
    assert done.code == 0
    assert "Memorisation is left out" in done.err
    assert json.loads(done.out)["memorisation"] is None


def test_another_extractor(evaluated, made, saved):
    out = made(f"{EDM} --test 20", saved("few", 0, 60))
    found = evaluated(f"{out} --extractor efficientnet-lite0")
    assert found["extractor"] == "efficientnet-lite0, images at 112×112"
    assert (found["test_images"], found["inception"]) == (20, None)


def test_images_without_labels(privet, evaluated, made, saved):
    out = made(EDM, saved("bare", 0, 100, labels=False))
    test = saved("test", 100, 150, labels=False)
    refused = privet(f"evaluate {out} --test {test}")
    assert (refused.code, "two classes or more" in refused.err) == (2, True)
    found = evaluated(f"{out} --test {test} --extractor efficientnet-lite0")
    assert (found["cas"], found["inception"], found["seen_images"]) == (None, None, 100)


def test_refusals(privet, made, saved, tmp_path):
    out = made(EDM)

    def refused(words, code=2):
        done = privet(f"evaluate {words}")
        assert done.code == code
        return done.err

    assert "had no test images: give some" in refused(out)
    assert "images that the run learned from" in refused(f"{out} --test digits")
    assert "--test is 0.2" in refused(f"{out} --test 0.2")
    assert "choose cnn, efficientnet-lite0" in refused(f"{out} --test 0.2 --extractor vgg")
    refused(f"{out} --test {tmp_path / 'none.npz'}", 4)
    np.savez(tmp_path / "other.npz", x=np.zeros((30, 8, 8, 1), np.uint8), y=np.arange(30) % 15)
    assert "other classes (15)" in refused(f"{out} --test {tmp_path / 'other.npz'}")
    test = saved("test", 0, 50)
    assert "brought to 8×8×1" in privet(f"evaluate {out} --test mnist5k").err
    shutil.rmtree(out / "synthetic")
    refused(f"{out} --test {test}", 4)
    (out / "result.json").unlink()
    assert "is not done: go on with privet synthesize" in refused(f"{out} --test {test}")
    shutil.rmtree(out)
    assert "'privet train', 'tune', 'synthesize', 'merge' or 'federate'" in refused(out)


def test_private_data_are_refused_as_test_images(privet, made):
    done = privet(f"evaluate {made(RELEASE)} --test digits")
    assert (done.code, "names the private data themselves" in done.err) == (2, True)


def test_a_model_needs_no_panel(privet, train, tmp_path):
    assert train().code == 0
    refused = privet(f"evaluate {tmp_path / 'run'} --panel all")
    assert (refused.code, "--panel is for runs of" in refused.err) == (2, True)


def test_a_model_needs_no_extractor(privet, train, tmp_path):
    assert train().code == 0
    refused = privet(f"evaluate {tmp_path / 'run'} --extractor cnn")
    assert (refused.code, "--extractor is for runs" in refused.err) == (2, True)


def test_a_panel_of_classifiers_beside_public_images_alone(privet, evaluated, made):
    words = f"--method {SYSTEMS['sps-g']} --encoder glyphs --epsilon 2 --delta 1e-5 --count 60"
    out = made(f"{words} --public 0.2 --test 100")
    found = evaluated(f"{out} --panel logistic,cnn --extractor glyphs")
    assert found["extractor"].startswith("glyphs, 1024 features")
    assert [each["classifier"] for each in found["panel"]] == ["logistic", "cnn"]
    logistic, cnn = found["panel"]
    assert logistic["public"] > 0.8 > logistic["synthetic"] >= 0
    assert cnn["synthetic"] == found["cas"]
    assert privet(f"report {out}").code == 0
    page = (out / "report.html").read_text()
    assert "public images alone" in page
    assert "panel, logistic" in page


def test_a_panel_without_public_classes(evaluated, made):
    out = made(f"{RELEASE} --test 100")
    [found] = evaluated(f"{out} --panel logistic")["panel"]
    assert found["public"] is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--panel forest", "--panel is 'forest': choose logistic, mlp, cnn"),
        ("--panel cnn,cnn", "--panel names the same classifier twice"),
    ],
)
def test_a_panel_that_there_is_not(privet, made, words, sentence):
    refused = privet(f"evaluate {made(f'{RELEASE} --test 100')} {words}")
    assert (refused.code, sentence in refused.err) == (2, True), refused.err


class TestReal:
    """Private images beside synthetic ones: on request, marked, and kept nowhere."""

    def test_is_printed_and_noted_in_a_full_ledger(self, privet, evaluated, made):
        out = made(f"{RELEASE} --test 100")
        before = read(out / "certificate.json")
        found = evaluated(f"{out} --panel logistic --real")
        [score] = found["panel"]
        assert score["real"] > 0.9 > score["synthetic"]
        assert read(out / "evaluation.json")["panel"] == [{**score, "real": None}]
        assert read(out / "certificate.json") == before
        ledger = json.loads(privet(f"ledger show {out / 'ledger.db'} --json").out)
        *_, look = ledger["reservations"]
        assert (look["epsilon"], look["events"], look["state"]) == (0, [], "closed")
        assert look["outside_guarantee"] == [DOOR]
        shown = privet(f"evaluate {out} --panel logistic --real").out
        assert f"of private images {score['real']:.1%} (NOT PRIVATE)" in shown
        assert privet(f"report {out}").code == 0
        page = (out / "report.html").read_text()
        assert f"{score['real']:.1%}" not in page
        assert "NOT PRIVATE" in page

    def test_leaves_the_budget_as_it_was(self, privet, made, evaluated):
        out = made(f"{RELEASE} --test 100")
        show = f"ledger show {out / 'ledger.db'} --json"
        before = json.loads(privet(show).out)
        evaluated(f"{out} --panel logistic --real")
        after = json.loads(privet(show).out)
        assert after["remaining_epsilon"] == before["remaining_epsilon"]

    @pytest.mark.parametrize(
        ("run", "words", "sentence"),
        [
            (RELEASE, "--real", "--real compares classifiers of a --panel: name some"),
            (EDM, "--panel logistic --real", "The run had no private images: leave --real out"),
        ],
    )
    def test_refusals(self, privet, made, run, words, sentence):
        refused = privet(f"evaluate {made(f'{run} --test 100')} {words}")
        assert (refused.code, sentence in refused.err) == (2, True), refused.err

    def test_is_for_sets(self, privet, train, tmp_path):
        assert train().code == 0
        refused = privet(f"evaluate {tmp_path / 'run'} --real")
        assert (refused.code, "--real is for runs of" in refused.err) == (2, True)
