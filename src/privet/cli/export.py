"""`privet export`: what a finished run made, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privet.cli.options import AsJson, print_json, print_pairs


def export(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A finished run of 'privet train', 'tune', 'synthesize', 'merge' or 'federate'.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="For synthetic images parquet, png or npz; for a model onnx or safetensors.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="PATH", help="The file (npz, onnx) or folder to make.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace what an earlier export left there.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Write what a run made for other tools, certificate inside.

    It costs nothing: no private image is read.
    """
    from privet.runs.run_export import export as write

    exported = write(folder, to, out, force=force)
    if json:
        print_json(exported.to_json())
        return
    print_pairs(exported.in_words())
