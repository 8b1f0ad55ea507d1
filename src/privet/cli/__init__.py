"""The command line: parses, calls, prints. Heavy imports wait until a command needs them."""

import os
import sys
from typing import NoReturn

import typer

from privet.cli.app import app
from privet.data.guard import shown
from privet.errors import PrivetError


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run `privet`; bad input is one sentence on stderr and an exit code, never a traceback."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    try:
        app(args=[word for word in words if word != "--debug"], prog_name="privet")
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        typer.echo(f"privet: {_sentence(error)}", err=True)
        sys.exit(error.exit_code if isinstance(error, PrivetError) else 1)
    sys.exit(0)


def _sentence(error: Exception) -> str:
    if isinstance(error, PrivetError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{shown(error.filename)[:200]} cannot be used ({error.strerror})."
    return f"Unexpected {type(error).__name__}: {error}. Run again with --debug for the traceback."
