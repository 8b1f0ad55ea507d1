"""`privet synthesize`: from private images to a synthetic data set that anyone may use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privet.cli.options import print_json, print_pairs
from privet.cli.progress import Watch
from privet.errors import ConfigError

if TYPE_CHECKING:
    from privet.recipes.synthesis_quote import SynthesisQuote
    from privet.recipes.synthesis_result import SynthesisResult

_MAIN, _DATA, _METHOD, _PRIVACY, _RUN = "What to do", "Data", "Method", "Privacy", "Running"

Text = str | None
Number = float | None
Whole = int | None


def _option(panel: str, help: str, metavar: str | None = None, *names: str) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


def synthesize(
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
        _option(
            _MAIN,
            "sps-g, dp-mepf, dp-merf, sps or sps-plus; settings follow a colon, such as "
            "sps-g:deep=64,iterations=800.",
            "NAME[:KEY=VALUE,…]",
        ),
    ] = None,
    epsilon: Annotated[Number, _option(_MAIN, "The ε to spend.", "E")] = None,
    delta: Annotated[Number, _option(_MAIN, "The δ of the guarantee.", "D")] = None,
    count: Annotated[
        Whole,
        _option(_MAIN, "How many images; with --resume more than before, for nothing.", "N"),
    ] = None,
    out: Annotated[Path | None, _option(_MAIN, "Where the run goes.", "DIR")] = None,
    public: Annotated[
        Text,
        _option(
            _DATA, "Public images: a share or a count of DATA, or another set.", "SHARE|COUNT|PATH"
        ),
    ] = None,
    test: Annotated[
        Text,
        _option(_DATA, "Images that are left out, declared not to be private.", "SHARE|COUNT|PATH"),
    ] = None,
    resize: Annotated[
        Text, _option(_DATA, "Bring images to one size: 32 or 32x48.", "SIZE")
    ] = None,
    channels: Annotated[
        Text, _option(_DATA, "Bring images to colour or to grey.", "rgb|grey")
    ] = None,
    encoder: Annotated[
        Text,
        _option(
            _METHOD,
            "What looks at images: conv[:epochs=12] (trained on public images), the "
            "encoder.safetensors of another run, or efficientnet-lite0 to 2[:image_size=64].",
            "NAME|PATH",
        ),
    ] = None,
    encoder_data: Annotated[
        Text, _option(_METHOD, "Another public set that the encoder learns from.", "PATH")
    ] = None,
    declared_size: Annotated[
        Number,
        _option(
            _PRIVACY,
            "The number of private images as their owner declares it; for predictions alone.",
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
    noise_seed: Annotated[
        Whole, _option(_PRIVACY, "For tests: the run is certified as NOT private.", "N")
    ] = None,
    dry_run: Annotated[
        bool,
        _option(
            _RUN,
            "Print the plan and the signal it leaves; read no private image, write nothing.",
            None,
            "--dry-run",
        ),
    ] = False,
    resume: Annotated[
        bool,
        _option(_RUN, "Go on with the run in DIR; no other option is needed.", None, "--resume"),
    ] = False,
    force: Annotated[
        bool, _option(_RUN, "Replace an earlier run in DIR.", None, "--force")
    ] = False,
    seed: Annotated[Whole, _option(_RUN, "Of the split; 0 by default.", "N")] = None,
    png: Annotated[
        bool,
        _option(_RUN, "Write DIR/png too: PNG files, a folder for each class.", None, "--png"),
    ] = False,
    json: Annotated[
        bool, _option(_RUN, "Print one JSON object on stdout.", None, "--json")
    ] = False,
) -> None:
    """Make a private synthetic data set and certify it.

    DATA, --method, --epsilon, --delta, --count and --out are needed for a new run; nothing but
    --out for --resume.
    """
    from privet.recipes.run import Session
    from privet.recipes.synthesis_config import SynthesisAsked
    from privet.recipes.synthesis_quote import quote
    from privet.recipes.synthesis_run import synthesize as run

    asked = SynthesisAsked.of(context.params)
    with Watch(bar=not json) as watch:
        if dry_run:
            _show(quote(asked, watch), json)
            return
        if out is None:
            raise ConfigError("Give --out: the folder where the run goes.")
        session = Session(out=out, resume=resume, force=force, noise_seed=noise_seed)
        result = run(asked, session, watch, count=count, png=png)
    _show(result, json)


def _show(found: SynthesisQuote | SynthesisResult, json: bool) -> None:
    if json:
        print_json(found.to_json())
        return
    print_pairs(found.in_words())
