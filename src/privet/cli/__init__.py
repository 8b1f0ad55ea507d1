"""The command line: parses, calls, prints. Heavy imports wait until a command needs them."""

import os
import sys
from typing import NoReturn

import click
import typer

from privet.cli.app import app
from privet.errors import PrivetError


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run `privet`; bad input is one sentence on stderr and an exit code, never a traceback."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = app(args=words, prog_name="privet", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _complain("Stopped.")
        sys.exit(130)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        _complain(_sentence(error))
        sys.exit(error.exit_code if isinstance(error, PrivetError) else 1)
    sys.exit(code if isinstance(code, int) else 0)


def _sentence(error: Exception) -> str:
    if isinstance(error, PrivetError):
        return str(error)
    return f"Unexpected {type(error).__name__}: {error}. Run again with --debug for the traceback."


def _complain(sentence: str) -> None:
    typer.echo(f"privet: {sentence}", err=True)
