"""What ends a command before its end: someone's Ctrl-C, a machine's SIGTERM, memory, a disk."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperGroup

from privet.data.guard import shown
from privet.errors import Stopped

_SOON = 0.02  # seconds
_AMONG_OTHERS = "RANK"  # torchrun ends its processes itself, also while they wait for each other
_NO_MEMORY = re.compile("out of memory|can't allocate memory|not enough memory", re.IGNORECASE)
_GO_ON = "then run it again, or go on with --resume where a run was begun"


class ReaderGone(Exception):  # noqa: N818 - it is no error
    """The reader of the output, such as `head`, has seen enough.

    Click takes a `BrokenPipeError` for a failure.
    """


class Commands(TyperGroup):
    """The group of all commands, which says a sentence when one of them is stopped.

    Typer alone would end it without a word.
    """

    def make_context(self, *words: Any, **settings: Any) -> Any:
        """Parse the command line as usual; a Ctrl-C becomes `Stopped`."""
        with telling():
            return super().make_context(*words, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run the command as usual; a Ctrl-C becomes `Stopped`."""
        with telling():
            return super().invoke(ctx)


@contextmanager
def telling() -> Iterator[None]:
    """Turn a Ctrl-C that nobody handles into `Stopped`, and a closed pipe into `ReaderGone`."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except KeyboardInterrupt:
        raise Stopped("Stopped: nothing is half done, run it again when you like.") from None


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that a machine that shuts down ends a run properly."""
    here = threading.current_thread() is threading.main_thread()
    if not here or _AMONG_OTHERS in os.environ or _taken(signal.SIGTERM):
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def ctrl_c_comes_again() -> Iterator[None]:
    """Repeat a Ctrl-C that is lost while Python clears away unused objects.

    At such a moment Python prints the exception and goes on; here it comes again a little later.
    """
    before, main = sys.unraisablehook, threading.main_thread().ident
    again = threading.Timer(_SOON, signal.pthread_kill, (main, signal.SIGINT))  # wakes a sleeper
    again.daemon = True

    def heard(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
        elif again.ident is None:  # a second one has the first one's place
            again.start()

    sys.unraisablehook = heard
    try:
        yield
    finally:
        again.cancel()
        sys.unraisablehook = before


def sentence(error: Exception) -> str:
    """The sentence that a user reads about an unexpected error."""
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))
    ):
        return f"Out of memory, and what was paid for is counted: free some, {_GO_ON}."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"A disk is full, and what was paid for is counted: free some space, {_GO_ON}."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{shown(error.filename)[:200]} cannot be used ({error.strerror})."
    return f"Unexpected {type(error).__name__}: {error}. Run again with --debug for the traceback."


def _taken(number: signal.Signals) -> bool:
    return signal.getsignal(number) is not signal.SIG_DFL
