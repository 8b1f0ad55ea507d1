"""`privet train`: from private images and something public to a private classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privet.cli.options import print_json, print_pairs
from privet.cli.progress import Watch
from privet.errors import ConfigError

if TYPE_CHECKING:
    from privet.recipes.run_quote import TrainingQuote
    from privet.recipes.run_result import RunResult

_MAIN, _DATA, _METHOD = "What to do", "Data", "Method"
_TRAINING, _WARM_UP, _PRIVACY = "Training", "Public data before and beside", "Privacy"
_RUN = "Running"
_SLOT = "NAME[:KEY=VALUE,…]"

Text = str | None
Number = float | None
Whole = int | None


def _option(panel: str, help: str, metavar: str | None = None, *names: str) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


def train(
    context: typer.Context,
    data: Annotated[
        Text,
        typer.Argument(
            metavar="DATA",
            help="The private images: a built-in name (digits, mnist5k) or a path.",
            show_default=False,
            rich_help_panel=_MAIN,
        ),
    ] = None,
    method: Annotated[
        Text,
        _option(_MAIN, "dp-sgd, dp-mix, dope, mirror, adadps or weight-multiplicity.", "NAME"),
    ] = None,
    epsilon: Annotated[Number, _option(_MAIN, "The ε to spend.", "E")] = None,
    delta: Annotated[Number, _option(_MAIN, "The δ of the guarantee.", "D")] = None,
    out: Annotated[Path | None, _option(_MAIN, "Where the run goes.", "DIR")] = None,
    preset: Annotated[
        Text,
        _option(
            _MAIN,
            "Where other settings start from: cpu (default, for thousands of images), cpu-large "
            "(for tens of thousands) or paper.",
            "cpu|cpu-large|paper",
        ),
    ] = None,
    public: Annotated[
        Text,
        _option(
            _DATA, "Public images: a share or a count of DATA, or another set.", "SHARE|COUNT|PATH"
        ),
    ] = None,
    test: Annotated[
        Text,
        _option(
            _DATA,
            "Images to measure accuracy on, declared not to be private; of a PATH with parts, its "
            "test part.",
            "SHARE|COUNT|PATH",
        ),
    ] = None,
    resize: Annotated[
        Text, _option(_DATA, "Bring images to one size: 32 or 32x48.", "SIZE")
    ] = None,
    channels: Annotated[
        Text, _option(_DATA, "Bring images to colour or to grey.", "rgb|grey")
    ] = None,
    model: Annotated[
        Text,
        _option(
            _METHOD,
            "conv-net[:width=32,strided=true], linear, mlp[:hidden=200-200], resnet9, wrn-16-4, "
            "wrn-40-4, vit, efficientnet-lite0 to 2[:image_size=112,hidden=200] (frozen, under a "
            "private head), or the folder of a saved ViT or DeiT.",
            "NAME|PATH",
        ),
    ] = None,
    views: Annotated[
        Text,
        _option(
            _METHOD,
            "K augmentations; plain; augmented:num_views=16,padding=4,flip=true; "
            "mixed:num_base=16,num_self=18,num_diff=2,alpha=0.2.",
            f"K|{_SLOT}",
        ),
    ] = None,
    perturb: Annotated[
        Text,
        _option(_METHOD, "none; sam:radius=0.05,count=2; asam:…; random:….", _SLOT),
    ] = None,
    scale: Annotated[
        Text, _option(_METHOD, "none; public-moments:damping=0.1,decay=0.9.", _SLOT)
    ] = None,
    origin: Annotated[
        Text, _option(_METHOD, "none; public:limit=0.5; last:decay=0.5,limit=0.5.", _SLOT)
    ] = None,
    update: Annotated[
        Text,
        _option(
            _METHOD,
            "sgd:momentum=0.9; adam:beta1=0.9; mirror:alpha=0.7,schedule=cosine,base=sgd.",
            _SLOT,
        ),
    ] = None,
    epochs: Annotated[Number, _option(_TRAINING, "Passes over the private images.", "N")] = None,
    sample_rate: Annotated[
        Number, _option(_TRAINING, "With which probability an image joins a step.", "Q")
    ] = None,
    batch_size: Annotated[
        Number, _option(_TRAINING, "Expected images in a step; needs --declared-size.", "B")
    ] = None,
    learning_rate: Annotated[Number, _option(_TRAINING, "At its highest.", "R")] = None,
    schedule: Annotated[
        Text, _option(_TRAINING, "Of the learning rate; constant by default.", "constant|cosine")
    ] = None,
    clip_norm: Annotated[
        Number, _option(_TRAINING, "The longest gradient of one image.", "C")
    ] = None,
    ema_decay: Annotated[
        Number, _option(_TRAINING, "Of the average of weights that is kept.", "A")
    ] = None,
    keep_last: Annotated[
        Whole, _option(_TRAINING, "Keep as many of the last weights for ensembles.", "N")
    ] = None,
    engine: Annotated[
        Text,
        _option(
            _TRAINING,
            "How gradients are taken; the fastest here if left out.",
            "loop|batched|ghost",
        ),
    ] = None,
    scenario: Annotated[
        Text,
        _option(
            _WARM_UP,
            "A column of Nasr et al. 2023: stands for --warm-up and --extended together.",
            "cold|cold-extended|warm|extended",
        ),
    ] = None,
    warm_up: Annotated[
        Text,
        _option(
            _WARM_UP,
            "Train on public images first; public by default if there are any.",
            "none|public",
        ),
    ] = None,
    warm_up_epochs: Annotated[
        Whole, _option(_WARM_UP, "Passes over the public images.", "N")
    ] = None,
    public_batch: Annotated[
        Whole, _option(_WARM_UP, "Images in each public gradient.", "N")
    ] = None,
    extended: Annotated[
        Number, _option(_WARM_UP, "Let a share of the public images join private batches.", "SHARE")
    ] = None,
    declared_size: Annotated[
        Number,
        _option(
            _PRIVACY,
            "The number of private images as their owner declares it; else 1% of the budget "
            "releases a count.",
            "N",
        ),
    ] = None,
    relation: Annotated[
        Text,
        _option(
            _PRIVACY,
            "Which private data sets count as neighbours; an image is what is protected.",
            "add-remove|replace-one",
        ),
    ] = None,
    ledger: Annotated[
        Text,
        _option(_PRIVACY, "The owner's ledger; else DIR gets one of its own.", "LEDGER"),
    ] = None,
    diagnostics: Annotated[
        bool,
        _option(
            _PRIVACY,
            "Look at gradients and losses of private images, outside the guarantee.",
            None,
            "--diagnostics",
        ),
    ] = False,
    noise_seed: Annotated[
        Whole, _option(_PRIVACY, "For tests: the run is certified as NOT private.", "N")
    ] = None,
    dry_run: Annotated[
        bool,
        _option(
            _RUN, "Print the plan; read no private image and write nothing.", None, "--dry-run"
        ),
    ] = False,
    resume: Annotated[
        bool,
        _option(_RUN, "Go on with the run in DIR; no other option is needed.", None, "--resume"),
    ] = False,
    force: Annotated[
        bool, _option(_RUN, "Replace an earlier run in DIR.", None, "--force")
    ] = False,
    seed: Annotated[Whole, _option(_RUN, "Of everything public; 0 by default.", "N")] = None,
    device: Annotated[str, _option(_RUN, "Where the model lies: cpu, cuda, ….", "NAME")] = "cpu",
    json: Annotated[
        bool, _option(_RUN, "Print one JSON object on stdout.", None, "--json")
    ] = False,
) -> None:
    """Train a private classifier and certify it.

    DATA, --method, --epsilon, --delta and --out are needed for a new run; nothing but --out for
    --resume. Slots of the method (--views to --update) can be filled one by one.
    """
    from privet.recipes.run import Session
    from privet.recipes.run import train as run
    from privet.recipes.run_config import Asked
    from privet.recipes.run_quote import quote

    asked = Asked.of({**context.params, "diagnostics": diagnostics or None})
    with Watch(bar=not json) as watch:
        if dry_run:
            _show_quote(quote(asked, noise_seed=noise_seed, listener=watch), json)
            return
        if out is None:
            raise ConfigError("Give --out: the folder where the run goes.")
        session = Session(out=out, resume=resume, force=force, noise_seed=noise_seed, device=device)
        result = run(asked, session, watch)
    _show_result(result, json)


def _show_quote(found: TrainingQuote, json: bool) -> None:
    if json:
        print_json(found.to_json())
        return
    print_pairs(found.in_words())


def _show_result(result: RunResult, json: bool) -> None:
    if json:
        print_json(result.to_json())
        return
    print_pairs(result.in_words())
