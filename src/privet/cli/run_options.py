"""Options that commands which start a run share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

MAIN, DATA, METHOD, PRIVACY, RUN = "What to do", "Data", "Method", "Privacy", "Running"

Text = str | None
Number = float | None
Whole = int | None


def option(panel: str, help: str, metavar: str | None = None, *names: str) -> Any:
    """An option of the command line that stands in a panel of the help."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


Data = Annotated[
    Text,
    typer.Argument(
        metavar="DATA",
        help="The private data: images by a built-in name (digits, mnist5k) or a path, a table "
        "(.csv, .jsonl, or .parquet with --target), or for train and tune a text (with --task).",
        show_default=False,
        rich_help_panel=MAIN,
    ),
]
Epsilon = Annotated[Number, option(MAIN, "The ε to spend.", "E")]
Delta = Annotated[Number, option(MAIN, "The δ of the guarantee.", "D")]
Out = Annotated[Path | None, option(MAIN, "Where the run goes.", "DIR")]
Public = Annotated[
    Text,
    option(DATA, "Public data: a share or a count of DATA, or another set.", "SHARE|COUNT|PATH"),
]
Resize = Annotated[Text, option(DATA, "Bring images to one size: 32 or 32x48.", "SIZE")]
Channels = Annotated[Text, option(DATA, "Bring images to colour or to grey.", "rgb|grey")]
Target = Annotated[
    Text,
    option(
        DATA,
        "For a table, the column to predict; to learn from text, its column of texts.",
        "COLUMN",
    ),
]
User = Annotated[
    Text,
    option(
        PRIVACY,
        "The column of a table or of images, or array of an .npz, that says whose each row is: all "
        "rows of a user are protected together, and sizes, shares and rates are of users.",
        "COLUMN",
    ),
]
SchemaFile = Annotated[
    Text,
    option(
        DATA,
        "For a table, what its columns hold, as 'privet data schema' writes it; else public rows "
        "tell.",
        "FILE",
    ),
]
Relation = Annotated[
    Text,
    option(
        PRIVACY,
        "Which private data sets count as neighbours; an image, a row or, with --user, a user is "
        "what is protected.",
        "add-remove|replace-one",
    ),
]
LedgerFile = Annotated[
    Text, option(PRIVACY, "The owner's ledger; else DIR gets one of its own.", "LEDGER")
]
Portion = Annotated[
    Text,
    option(
        PRIVACY,
        "The portion of the owner's ledger that DATA lie in: portions count beside each other, "
        "since no row lies in two.",
        "NAME",
    ),
]
NoiseSeed = Annotated[
    Whole, option(PRIVACY, "For tests: the run is certified as NOT private.", "N")
]
Resume = Annotated[
    bool, option(RUN, "Go on with the run in DIR; no other option is needed.", None, "--resume")
]
Force = Annotated[bool, option(RUN, "Replace an earlier run in DIR.", None, "--force")]
TensorBoard = Annotated[
    bool,
    option(
        RUN,
        "Write events for TensorBoard, DIR/tensorboard, of all that metrics.jsonl holds.",
        None,
        "--tensorboard",
    ),
]
AsJson = Annotated[bool, option(RUN, "Print one JSON object on stdout.", None, "--json")]
