"""`privet synthesize`: from private images or a private table to a set that anyone may use."""

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
    from privet.runs.public_synthesis import PublicQuote, PublicResult
    from privet.runs.synthesis_quote import SynthesisQuote
    from privet.runs.synthesis_result import SynthesisResult
    from privet.runs.table_run import TableResult


def synthesize(
    context: typer.Context,
    data: Data = None,
    method: Annotated[
        Text,
        option(
            MAIN,
            "sps-g, dp-mepf, dp-merf (which also makes tables), sps or sps-plus; or edm or ddpm, "
            "which make public images of public ones. Settings follow a colon and win over all "
            "others, such as sps-g:deep=64,iterations=800.",
            "NAME[:KEY=VALUE,…]",
        ),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    count: Annotated[
        Whole,
        option(MAIN, "How many images or rows; with --resume more than before, for nothing.", "N"),
    ] = None,
    out: Out = None,
    preset: Annotated[
        Text,
        option(
            MAIN,
            "Where settings start from: auto (default) chooses by noise, classes and images, and "
            "says why; paper takes those that were published, for large GPUs.",
            "auto|paper",
        ),
    ] = None,
    public: Public = None,
    test: Annotated[
        Text,
        option(DATA, "Images that are left out, declared not to be private.", "SHARE|COUNT|PATH"),
    ] = None,
    target: Target = None,
    schema: SchemaFile = None,
    resize: Resize = None,
    channels: Channels = None,
    encoder: Annotated[
        Text,
        option(
            METHOD,
            "What looks at images: conv[:epochs=12] (trained on public images), "
            "private[:share=0.5] (trained on private ones, for a share of ε), procedural (trained "
            "on images of nothing), glyphs (comes with Privet, for grey images), untrained, the "
            "encoder.safetensors of another run, or efficientnet-lite0 to 2[:image_size=64]; "
            "several with + between them.",
            "NAME|PATH[+…]",
        ),
    ] = None,
    encoder_data: Annotated[
        Text, option(METHOD, "Another public set that the encoder learns from.", "PATH")
    ] = None,
    declared_size: Annotated[
        Number,
        option(
            PRIVACY,
            "The number of private images, rows or users as their owner declares it: the more "
            "there are, the more numbers are released.",
            "N",
        ),
    ] = None,
    user: User = None,
    relation: Relation = None,
    ledger: LedgerFile = None,
    portion: Portion = None,
    noise_seed: NoiseSeed = None,
    dry_run: Annotated[
        bool,
        option(
            RUN,
            "Print the plan and the signal it leaves; read no private image, write nothing.",
            None,
            "--dry-run",
        ),
    ] = False,
    resume: Resume = False,
    force: Force = False,
    device: Annotated[
        str, option(RUN, "Where encoder, generator and matching run: cpu, cuda, ….", "NAME")
    ] = "cpu",
    seed: Annotated[Whole, option(RUN, "Of the split; 0 by default.", "N")] = None,
    classes: Annotated[
        Text,
        option(
            METHOD,
            "How large synthetic classes are: equally (default for images), or as released counts "
            "say (default for tables).",
            "balanced|released",
        ),
    ] = None,
    soft_labels: Annotated[
        bool,
        option(
            METHOD,
            "Add class probabilities by released moments to every image (sps-g, sps).",
            None,
            "--soft-labels",
        ),
    ] = False,
    png: Annotated[
        bool,
        option(RUN, "Write DIR/png too: PNG files, a folder for each class.", None, "--png"),
    ] = False,
    tensorboard: TensorBoard = False,
    json: AsJson = False,
) -> None:
    """Make a private synthetic data set and certify it.

    DATA, --method, --epsilon, --delta, --count and --out are needed for a new run; nothing but
    --out for --resume.
    """
    from privet.runs.public_synthesis import is_public, quote_public, synthesize_public
    from privet.runs.run_folder import RunFolder
    from privet.runs.session import Session
    from privet.runs.synthesis_config import SynthesisAsked
    from privet.runs.synthesis_quote import quote
    from privet.runs.synthesis_run import synthesize as run
    from privet.runs.synthesis_teamwork import help_synthesis
    from privet.runs.table_config import of_table
    from privet.runs.table_run import synthesize_table
    from privet.runs.table_stage import quote_table
    from privet.runs.teamwork import helps, team_for

    asked = SynthesisAsked.of({**context.params, "soft_labels": soft_labels or None})
    with team_for(device) as team, Watch(bar=not json) as watch:
        if helps(team):
            help_synthesis(team)
            return
        public_only = is_public(asked, out, resume=resume)
        earlier = RunFolder(out, "synthesize") if resume and out is not None else None
        table = not public_only and of_table(asked, earlier)
        if dry_run:
            look = quote_table if table else quote
            _show(quote_public(asked) if public_only else look(asked, watch), json)
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
        private = synthesize_table if table else run
        start = synthesize_public if public_only else private
        result = start(asked, session, watch, count=count, png=png)
    _show(result, json)


def _show(
    found: SynthesisQuote | SynthesisResult | TableResult | PublicQuote | PublicResult, json: bool
) -> None:
    if json:
        print_json(found.to_json())
        return
    print_pairs(found.in_words())
