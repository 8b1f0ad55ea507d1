"""The command line: parses, calls, prints. Heavy imports wait until a command needs them."""

import contextlib
import ctypes
import os
import resource
import sys
from typing import NoReturn

import typer

from privet.cli.app import app
from privet.cli.stopping import ReaderGone, ctrl_c_comes_again, sentence, sigterm_as_ctrl_c, telling
from privet.errors import PrivetError

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as <malloc.h> numbers them


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run `privet`; bad input is one sentence on stderr and an exit code, never a traceback."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    _keep_memory_off_the_disk()
    keep_freed_memory()
    try:
        with sigterm_as_ctrl_c(), telling(), ctrl_c_comes_again():
            app(args=[word for word in words if word != "--debug"], prog_name="privet")
    except ReaderGone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        said = str(error) if isinstance(error, PrivetError) else sentence(error)
        typer.echo(f"privet: {said}", err=True)
        sys.exit(error.exit_code if isinstance(error, PrivetError) else 1)
    sys.exit(0)


def _keep_memory_off_the_disk() -> None:
    """Forbid core dumps, which would hold private rows and the key of their noise."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


def keep_freed_memory() -> None:
    """Keep freed memory for the next step, unless glibc was told otherwise.

    glibc would hand large blocks back, and the system would clear the same pages for every step.
    """
    if "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return
    with contextlib.suppress(AttributeError, OSError):  # other systems have no such function
        set_option = ctypes.CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, 2**30)
        set_option(_TRIM_THRESHOLD, 2**31 - 1)
