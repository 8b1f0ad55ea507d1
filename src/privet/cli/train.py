"""`privet train`: from private data and something public to a private classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from privet.cli.options import print_json, print_pairs
from privet.cli.progress import Watch
from privet.cli.run_options import (
    DATA,
    MAIN,
    METHOD,
    PRIVACY,
    RUN,
    AsJson,
    Channels,
    Data,
    Delta,
    Epsilon,
    Force,
    LedgerFile,
    NoiseSeed,
    Number,
    Out,
    Portion,
    Public,
    Relation,
    Resize,
    Resume,
    SchemaFile,
    Target,
    TensorBoard,
    Text,
    User,
    Whole,
    option,
)
from privet.errors import ConfigError

if TYPE_CHECKING:
    from privet.runs.train_quote import TrainingQuote
    from privet.runs.train_result import RunResult

_TRAINING, _WARM_UP = "Training", "Public data before and beside"
_SLOT = "NAME[:KEY=VALUE,…]"


def train(
    context: typer.Context,
    data: Data = None,
    method: Annotated[
        Text,
        option(MAIN, "dp-sgd, dp-mix, dope, mirror, adadps or weight-multiplicity.", "NAME"),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    out: Out = None,
    preset: Annotated[
        Text,
        option(
            MAIN,
            "Where other settings start from: cpu (default, for thousands of images), cpu-large "
            "(for tens of thousands) or paper.",
            "cpu|cpu-large|paper",
        ),
    ] = None,
    public: Public = None,
    test: Annotated[
        Text,
        option(
            DATA,
            "Rows to measure accuracy on, declared not to be private; of a PATH with parts, its "
            "test part.",
            "SHARE|COUNT|PATH",
        ),
    ] = None,
    task: Annotated[
        Text,
        option(
            DATA,
            "For a text file: lm predicts each word from those before it, mlm blanked-out words "
            "from those around them.",
            "lm|mlm",
        ),
    ] = None,
    target: Target = None,
    schema: SchemaFile = None,
    resize: Resize = None,
    channels: Channels = None,
    model: Annotated[
        Text,
        option(
            METHOD,
            "conv-net[:width=32,strided=true], linear, mlp[:hidden=200-200], resnet9, wrn-16-4, "
            "wrn-40-4, vit; lm or mlm[:width=128,depth=2,heads=4] for text; "
            "a private head on a frozen efficientnet-lite0 to 2[:image_size=112,"
            "hidden=200] or on glyphs (comes with Privet, for grey images); or the folder of a "
            "saved ViT, DeiT or, for text, GPT-2.",
            "NAME|PATH",
        ),
    ] = None,
    views: Annotated[
        Text,
        option(
            METHOD,
            "K augmentations; plain; augmented:num_views=16,padding=4; "
            "mixed:num_base=16,num_self=18; masked, for --task mlm.",
            f"K|{_SLOT}",
        ),
    ] = None,
    perturb: Annotated[
        Text,
        option(METHOD, "none; sam:radius=0.05,count=2; asam:…; random:….", _SLOT),
    ] = None,
    scale: Annotated[
        Text, option(METHOD, "none; public-moments:damping=0.1,decay=0.9.", _SLOT)
    ] = None,
    origin: Annotated[
        Text, option(METHOD, "none; public:limit=0.5; last:decay=0.5,limit=0.5.", _SLOT)
    ] = None,
    update: Annotated[
        Text,
        option(
            METHOD,
            "sgd:momentum=0.9; adam:beta1=0.9; mirror:alpha=0.7,schedule=cosine,base=sgd.",
            _SLOT,
        ),
    ] = None,
    epochs: Annotated[Number, option(_TRAINING, "Passes over the private rows.", "N")] = None,
    sample_rate: Annotated[
        Number, option(_TRAINING, "With which probability a row joins a step.", "Q")
    ] = None,
    batch_size: Annotated[
        Number, option(_TRAINING, "Expected rows in a step; needs --declared-size.", "B")
    ] = None,
    learning_rate: Annotated[Number, option(_TRAINING, "At its highest.", "R")] = None,
    schedule: Annotated[
        Text, option(_TRAINING, "Of the learning rate; constant by default.", "constant|cosine")
    ] = None,
    clip_norm: Annotated[Number, option(_TRAINING, "The longest gradient of one row.", "C")] = None,
    ema_decay: Annotated[
        Number, option(_TRAINING, "Of the average of weights that is kept.", "A")
    ] = None,
    keep_last: Annotated[
        Whole, option(_TRAINING, "Keep as many of the last weights for ensembles.", "N")
    ] = None,
    engine: Annotated[
        Text,
        option(
            _TRAINING,
            "How gradients are taken; the fastest here if left out.",
            "loop|batched|ghost",
        ),
    ] = None,
    scenario: Annotated[
        Text,
        option(
            _WARM_UP,
            "A column of Nasr et al. 2023: stands for --warm-up and --extended together.",
            "cold|cold-extended|warm|warm-syn|extended",
        ),
    ] = None,
    synthetic: Annotated[
        Text,
        option(
            _WARM_UP,
            "Images made of public ones, as by privet synthesize --method edm: they serve wherever "
            "public images do.",
            "PATH",
        ),
    ] = None,
    warm_up: Annotated[
        Text,
        option(
            _WARM_UP,
            "Train on public rows first, or on synthetic ones too; by default on all there are.",
            "none|public|synthetic",
        ),
    ] = None,
    warm_up_epochs: Annotated[Whole, option(_WARM_UP, "Passes over the public rows.", "N")] = None,
    warm_up_steps: Annotated[
        Text,
        option(
            _WARM_UP,
            "How the warm-up steps: sgd (default), sam, asam or gsam[:radius=0.1], which look for "
            "flat minima, or pgd[:radius=0.008,steps=10] on adversarial views.",
            "NAME[:KEY=VALUE,…]",
        ),
    ] = None,
    warm_up_augment: Annotated[
        Text,
        option(
            _WARM_UP,
            "Views in the warm-up: none, common (shifts and mirrors; default), cutout, cutmix or "
            "auto (AutoAugment), each with the common ones.",
            "NAME",
        ),
    ] = None,
    public_batch: Annotated[Whole, option(_WARM_UP, "Rows in each public gradient.", "N")] = None,
    extended: Annotated[
        Number, option(_WARM_UP, "Let a share of the public rows join private batches.", "SHARE")
    ] = None,
    release: Annotated[
        Text,
        option(
            _WARM_UP,
            "Spend a share of ε on a synthetic set of the private images first: it serves wherever "
            "public images do. auto proposes the share. Needs --declared-size.",
            "SHARE|auto",
        ),
    ] = None,
    release_method: Annotated[
        Text,
        option(_WARM_UP, "How, as privet synthesize --method; sps-g by default.", _SLOT),
    ] = None,
    release_count: Annotated[
        Whole, option(_WARM_UP, "How many synthetic images; 10,000 by default.", "N")
    ] = None,
    encoder: Annotated[
        Text,
        option(
            _WARM_UP,
            "What looks at images in the release, as privet synthesize --encoder; conv by default.",
            "NAME|FILE",
        ),
    ] = None,
    declared_size: Annotated[
        Number,
        option(
            PRIVACY,
            "The number of private rows, or of users, as their owner declares it; else 1% of the "
            "budget releases a count.",
            "N",
        ),
    ] = None,
    user: User = None,
    relation: Relation = None,
    ledger: LedgerFile = None,
    portion: Portion = None,
    diagnostics: Annotated[
        bool,
        option(
            PRIVACY,
            "Look at gradients and losses of private rows, outside the guarantee.",
            None,
            "--diagnostics",
        ),
    ] = False,
    noise_seed: NoiseSeed = None,
    dry_run: Annotated[
        bool,
        option(RUN, "Print the plan; spend and write nothing.", None, "--dry-run"),
    ] = False,
    resume: Resume = False,
    force: Force = False,
    seed: Annotated[Whole, option(RUN, "Of everything public; 0 by default.", "N")] = None,
    device: Annotated[str, option(RUN, "Where the model lies: cpu, cuda, ….", "NAME")] = "cpu",
    tensorboard: TensorBoard = False,
    json: AsJson = False,
) -> None:
    """Train a private classifier or language model and certify it.

    DATA, --method, --epsilon, --delta and --out are needed for a new run; nothing but --out for
    --resume. Slots of the method (--views to --update) can be filled one by one.
    """
    from privet.runs.session import Session
    from privet.runs.teamwork import help_training, helps, team_for
    from privet.runs.train_config import Asked
    from privet.runs.train_quote import quote
    from privet.runs.train_run import train as run

    asked = Asked.of({**context.params, "diagnostics": diagnostics or None})
    with team_for(device) as team, Watch(bar=not json) as watch:
        if helps(team):
            help_training(team)
            return
        if dry_run:
            _show_quote(quote(asked, noise_seed=noise_seed, listener=watch), json)
            return
        if out is None:
            raise ConfigError("Give --out: the folder where the run goes.")
        session = Session(
            out=out,
            resume=resume,
            force=force,
            noise_seed=noise_seed,
            device=str(team.device),
            tensorboard=tensorboard,
            team=team,
        )
        result = run(asked, session, watch)
    show_result(result, json)


def _show_quote(found: TrainingQuote, json: bool) -> None:
    if json:
        print_json(found.to_json())
        return
    print_pairs(found.in_words())


def show_result(result: RunResult, json: bool) -> None:
    """Print what a run found, in words or as JSON."""
    if json:
        print_json(result.to_json())
        return
    print_pairs(result.in_words())
