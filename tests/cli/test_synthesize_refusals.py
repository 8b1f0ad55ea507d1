"""What `privet synthesize` refuses: one sentence, the right exit code, nothing written or spent."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from privet.errors import ConfigError
from privet.models import ConvEncoder
from privet.privacy import Ledger
from privet.recipes import public_encoders
from privet.runs.run_folder import RunFolder
from tests.cli.runs import BESIDE, QUICK_SYNTHESIS, SYSTEMS, names

SPS_PLUS = f"--encoder {{encoder}} --method {SYSTEMS['sps-plus']}"
SPS_G = f"--encoder {{encoder}} --method {SYSTEMS['sps-g']}"
REFUSALS = [
    ("--epsilon 0", 2, "ε must be a positive number, not 0."),
    ("--delta 1", 2, "δ must lie strictly between 0 and 1"),
    ("--relation replace-one", 2, "--relation is replace-one and the ledger's is add-remove"),
    ("--epsilon 2.5", 3, "Asked for ε = 2.5"),
    ("--count 0", 2, "--count is 0: give 1 or more."),
    ("--count -3", 2, "--count is -3: give 1 or more."),
    ("--method magic", 2, "--method is 'magic': choose sps-g, dp-mepf, dp-merf, sps, sps-plus."),
    ("--method dp-merf:deep=3", 2, "--method dp-merf has no setting 'deep': it takes"),
    ("--method dp-merf:size=many", 2, "--method size is 'many': give a whole number."),
    ("--method dp-merf:size=3", 2, "Fourier features come in pairs"),
    ("--method dp-merf:widths=8-8", 2, "--method widths are 2 numbers: give 4."),
    ("--method dp-merf:widths=8-8-8-8-8", 2, "--method widths are 5 numbers: give 4."),
    ("--method dp-merf:widths=8,8", 2, "--method has '8': write name:key=value,key=value."),
    ("--method dp-merf:betas=0.5", 2, "--method betas are 1 numbers: give 2."),
    ("--method dp-merf:latent=0", 2, "--method widths, width and latent must be 1 or more."),
    ("--method dp-merf:batch_size=0", 2, "--method batch_size and checks must be 1 or more."),
    ("--method dp-merf:length_scale=0", 2, "The length scale must be positive, not 0."),
    ("--method dp-merf:generator=gan", 2, "generator is 'gan': choose upsampling, residual, code."),
    ("--method dp-merf:generator=residual", 2, "a residual generator makes 32×32 or 64×64"),
    ("--method dp-merf:count_share=0", 2, "--method count_share is 0: give more than 0."),
    ("--method dp-merf:average_rate=-1", 2, "--method average_rate is -1: give more than 0."),
    ("--method sps:later_iterations=0,clip_ratios=0.1-0.1", 2, "Pixels need iterations"),
    ("--method sps-g:decay=1", 2, "decay is 1; give 0 to below 1."),
    ("--method dp-merf:iterations=0", 2, "A generator needs at least one iteration"),
    ("--method sps:clip_ratios=0", 2, "SPS needs a positive clip ratio for each stage."),
    ("--method dp-merf:size", 2, "--method has 'size': write name:key=value,key=value."),
    ("--method sps-g", 2, "An encoder learns from public images of two classes or more"),
    ("--method sps-g --public 1", 2, "An encoder learns from public images of two classes"),
    ("--method sps-g --encoder vgg", 2, "--encoder is 'vgg': choose conv, "),
    ("--public 0.1 --method sps-g --encoder conv:epochs=0", 2, "epochs is 0"),
    ("--public 0.1 --method sps-g --encoder conv:depth=3", 2, "conv has no setting 'depth'"),
    (SPS_G, 2, "SPS-G takes principal components of public images: give --public."),
    (f"{SPS_G} --public 5", 2, "6 principal components need more than as many"),
    (f"{SPS_G.replace('deep=6', 'deep=300')} --public 0.5", 2, "300 principal components need"),
    (f"{SPS_G},clip_norm=0 --public 0.1", 2, "The clip norm must lie between"),
    (f"{SPS_PLUS},pseudo_count=50", 2, "50 are more pseudo-classes than classes allow"),
    (f"{SPS_PLUS},per_pseudo=11", 2, "A pseudo-class holds 1 to 10 classes, not 11."),
    (f"{SPS_PLUS},per_pseudo=4,pseudo_count=7", 2, "10 classes equally often: give 5 or 10"),
    (f"{SPS_PLUS},pseudo_count=7", 2, "7 pseudo-classes of 2 cannot hold each of 10 classes"),
    ("--method sps:class_size=100000 --encoder glyphs", 2, "GiB of memory where there are"),
    (f"{SPS_PLUS},class_layers=9", 2, "class_layers is 9 and the encoder has 5 layers"),
    (f"{SPS_PLUS},layers=conv1,class_layers=1", 2, "The encoder has no layer 'conv1': choose"),
    ("--classes even", 2, "--classes is 'even': choose balanced, released."),
    ("--soft-labels", 2, "which mean embeddings lack: choose --method sps-g or sps."),
    (f"{SPS_PLUS} --soft-labels", 2, "give --method sps-plus:pseudo_count=0."),
    ("--preset quick", 2, "--preset is 'quick': choose auto, paper."),
    ("--preset paper --method sps-g", 2, "No paper has SPS-G: leave --preset out, or choose"),
    ("--resize 10", 2, "The images are 10×10 and a generator makes squares"),
    ("--resize 8x12", 2, "multiple of 4: give --resize 12, or --method sps."),
    (f"{SPS_PLUS} --channels rgb", 2, "is an encoder of 1 channels and the images have 3"),
    ("--method sps --encoder nowhere.safetensors", 4, "nowhere.safetensors cannot be read"),
    ("--method sps --encoder {text}", 4, "text.safetensors cannot be read"),
    ("--method sps --encoder {wide}", 4, "wide.safetensors has other layers or sizes"),
    ("--method sps --encoder {broken}", 4, "broken.safetensors has weights that are not finite"),
    ("--public digits", 2, "--public names the private data themselves"),
    ("--encoder-data digits --method sps", 2, "--encoder-data names the private data themselves"),
    ("--encoder-data nowhere.npz --method sps", 4, "nowhere.npz does not exist"),
    ("--declared-size 0", 2, "--declared-size is 0: give the number of examples"),
    ("--seed -1", 2, "seed is -1"),
    ("--noise-seed -1", 2, "--noise-seed is -1: give a whole number from 0 upwards."),
    ("--resume", 2, "holds no run to go on with: start one without --resume."),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory, encoder):
    """Encoders that are none, or none of ours."""
    place = tmp_path_factory.mktemp("files")
    (place / "text.safetensors").write_text("no tensors")
    save_file(ConvEncoder(1, widths=(8, 8)).state_dict(), place / "wide.safetensors")
    weights = load_file(encoder)
    weights["layers.1.0.weight"][0] = torch.nan
    save_file(weights, place / "broken.safetensors")
    return {path.stem: path for path in place.iterdir()} | {"encoder": encoder}


@pytest.fixture(scope="module")
def new_ledger(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "owner.db"
    Ledger.create(path, epsilon=2, delta=1e-5, relation="add-remove").close()
    return path


@pytest.mark.parametrize(("words", "code", "sentence"), REFUSALS)
def test_refusals_are_one_sentence_and_cost_nothing(
    synthesize, tmp_path, files, new_ledger, words, code, sentence
):
    owner = Path(shutil.copy(new_ledger, tmp_path))
    result = synthesize(f"--ledger {owner} {words.format(**files)}", out="deep/run")
    assert (result.code, result.out) == (code, ""), result.err
    assert sentence in result.err
    assert result.err.startswith("privet: ")
    assert result.err.count("\n") == 1
    assert names(tmp_path) <= {"owner.db"}
    assert Ledger.open(owner).records() == ()


def test_other_refusals(privet, tmp_path):
    def refused(words, code, sentence):
        result = privet(words)
        assert (result.code, result.out) == (code, "")
        assert sentence in result.err
        assert not (tmp_path / "run").exists()

    out = f"--out {tmp_path / 'run'}"
    refused(f"synthesize {out}", 2, "Give --count: how many images to make.")
    refused(f"synthesize --count 9 {out}", 2, "Give --epsilon and --delta")
    refused(f"synthesize --count 9 --epsilon 1 --delta 1e-5 {out}", 2, "Give DATA")
    words = f"synthesize digits --count 9 --epsilon 1 --delta 1e-5 {out}"
    refused(words, 2, "Give --method: sps-g, dp-mepf, dp-merf, sps, sps-plus.")
    refused(QUICK_SYNTHESIS, 2, "Give --out")
    refused(f"{QUICK_SYNTHESIS} {out} --ledger {tmp_path / 'no.db'}", 3, "There is no ledger at")
    np.savez(tmp_path / "plain.npz", x=np.zeros((9, 8, 8), np.uint8))
    plain = words.replace("digits", str(tmp_path / "plain.npz"))
    refused(f"{plain} --method dp-merf --soft-labels", 2, "The images are of one class, so")
    refused(f"{plain} --method sps --public 2", 2, "public images of two classes or more")
    refused(words.replace("digits", "nowhere.npz"), 4, "nowhere.npz does not exist")


def test_a_folder_is_never_overwritten(synthesize, tmp_path):
    assert synthesize("--noise-seed 1").code == 0
    out = tmp_path / "run"
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = synthesize()
    assert again.code == 2
    assert "go on with --resume, replace it with --force" in again.err
    Ledger.create(tmp_path / "o.db", epsilon=1, delta=1e-5, relation="add-remove").close()
    for words, code in (
        ("--epsilon 0", 2),
        ("--method sps-g", 2),
        ("--resize 9", 2),
        (f"--ledger {tmp_path / 'o.db'}", 3),
    ):
        assert synthesize(f"--force {words}").code == code
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before

    (out / "notes.txt").write_text("precious")
    forced = synthesize("--force --count 20")
    assert forced.code == 0
    assert "stays spent" in forced.err
    assert (out / "notes.txt").read_text() == "precious"
    [record] = Ledger.open(out / "ledger.1.db").records()
    assert record.spent == (1,)
    assert names(out / "synthetic") == {"part-00000.parquet", *BESIDE}
    for step in (out / "steps" / "generator.safetensors", out / "releases" / "release.safetensors"):
        assert step.read_bytes() != before[step]


def test_other_commands_runs_and_files_are_left_alone(synthesize, train, tmp_path):
    assert train(out="model").code == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"theirs": 1}')
    (tmp_path / "file").write_text("precious")
    for out in ("model", "mine", "file"):
        assert synthesize("--force", out=out).code == 2
        assert synthesize("--resume", out=out).code == 2
    assert names(tmp_path / "mine") == {"config.json"}


def test_a_folder_in_use_is_refused(synthesize, tmp_path):
    assert synthesize().code == 0
    with RunFolder(tmp_path / "run").claimed():
        for words in ("--force", "--resume", "--resume --count 100"):
            result = synthesize(words)
            assert result.code == 2
            assert "is in use by a running process" in result.err


def test_an_encoder_that_diverges_costs_nothing(synthesize, tmp_path, monkeypatch):
    def diverged(*_, **__):
        raise ConfigError("the warm-up loss is nan; lower the learning rate from 9.")

    owner = tmp_path / "owner.db"
    Ledger.create(owner, epsilon=2, delta=1e-5, relation="add-remove").close()
    with monkeypatch.context() as patch:
        patch.setattr(public_encoders, "warm_up", diverged)
        words = f"--ledger {owner} --public 0.1 --method {SYSTEMS['sps-g']}"
        result = synthesize(f"{words} --encoder conv:epochs=1")
    assert (result.code, "the warm-up loss is nan" in result.err) == (2, True)
    assert Ledger.open(owner).records() == ()
    assert synthesize(f"{words} --encoder conv:epochs=1 --force").code == 0
