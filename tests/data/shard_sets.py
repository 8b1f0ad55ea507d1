"""Class names, easy and odd, and ways for a disk to fail."""

import os

NAMES = ("cat", "dog", "emu")
ODD = (
    "a/b",
    "..",
    "été \N{SNOWMAN}",
    "100%",
    ".hidden",
    "x.",
    "",
    "n" * 300,
    "tab\there",
    "\ud800",
)


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


def failing(code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    return fail
