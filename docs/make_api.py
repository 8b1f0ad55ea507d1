"""Write the API pages, one for each room, from docstrings; `--check` only compares."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PAGES = Path(__file__).resolve().parent / "api"
ROOMS = (
    *("privacy", "data", "models", "augment", "optim", "public", "hedge", "learn", "release"),
    *("synthesis", "share", "measure", "recipes", "runs", "report", "federate", "audit"),
)
_NOTE = "<!-- Written by docs/make_api.py: change docstrings, not this page. -->\n"
_SECTION = re.compile(r"^(Args|Raises|Guarantees|References|Yields|Returns):$", re.MULTILINE)
_TITLES = {"Args": "Arguments"}
_PATH = re.compile(r"\b(?:[A-Za-z_]\w*\.)+([A-Za-z_]\w*)")
_FUNCTION = re.compile(r"<function (?:\w+\.)*(\w+) at 0x[0-9a-f]+>")
_WIDTH = 96


def pages() -> dict[str, str]:
    """The content of every page by its name."""
    found = {f"{room}.md": _page(import_module(f"privet.{room}")) for room in ROOMS}
    return {"index.md": _index(), **found}


def _index() -> str:
    package, errors = import_module("privet"), import_module("privet.errors")
    rooms = [
        f"| [`privet.{room}`]({room}.md) | {_cell(import_module(f'privet.{room}'))} |"
        for room in ROOMS
    ]
    own = [name for name in package.__all__ if not inspect.ismodule(getattr(package, name))]
    homes = [f"`privet.{name}`" for name in own]
    tree = inspect.getdoc(errors) or ""
    parts = (
        "# API",
        _first(package),
        "\n".join(("| room | what is in it |", "|---|---|", *rooms)),
        f"{', '.join(homes)} are at the top: a hedge, a ledger, and what a run made, loaded.",
        "## `privet.errors`",
        tree.replace("::\n\n", ""),
    )
    return _NOTE + "\n\n".join(parts) + "\n"


def _page(room: ModuleType) -> str:
    named = [(name, getattr(room, name)) for name in room.__all__]
    parts = [f"# `{room.__name__}`", _first(room), *(_entry(room, *each) for each in named)]
    return _NOTE + "\n\n".join(parts) + "\n"


def _first(module: ModuleType) -> str:
    return _joined((inspect.getdoc(module) or "").split("\n\n")[0])


def _cell(module: ModuleType) -> str:
    return _first(module).replace("|", "\\|")


def _entry(room: ModuleType, name: str, thing: Any) -> str:
    parts = [f"## `{name}`"]
    if inspect.isclass(thing):
        if not getattr(thing, "_is_protocol", False):
            parts.append(_signature(name, thing))
        parts += [_prose(inspect.getdoc(thing) or ""), *_members(thing)]
    elif inspect.isfunction(thing):
        parts += [_signature(name, thing), _prose(inspect.getdoc(thing) or "")]
    else:
        parts += _value(room, name, thing)
    return "\n\n".join(part for part in parts if part)


def _signature(name: str, thing: Any) -> str:
    """As code; one parameter a line where they do not fit in one."""
    try:
        found = inspect.signature(thing)
    except ValueError:  # an enumeration, say
        return ""
    parameters = [each for each in found.parameters.values() if each.name != "self"]
    made = found.replace(parameters=parameters)
    if inspect.isclass(thing):
        made = made.replace(return_annotation=inspect.Signature.empty)
    plain = _clean(str(made))
    if len(name + plain) <= _WIDTH:
        return f"    {name}{plain}"
    inside = _split(plain)
    end = plain[plain.rindex(")") :]
    return "\n".join([f"    {name}(", *(f"        {each}," for each in inside), f"    {end}"])


def _clean(text: str) -> str:
    """Without quotes around annotations, modules before names and places in memory."""
    text = re.sub(r"""(: |-> )(["'])(.*?)\2""", r"\1\3", text.replace("<factory>", "…"))
    return _PATH.sub(r"\1", _FUNCTION.sub(r"\1", text))


def _split(signature: str) -> list[str]:
    """The parameters of a signature, each by itself."""
    found, depth, start = [], 0, 1
    for place, letter in enumerate(signature):
        depth += (letter in "([{") - (letter in ")]}")
        if (letter == "," and depth == 1) or (letter == ")" and depth == 0):
            found.append(signature[start:place].strip())
            start = place + 1
        if letter == ")" and depth == 0:
            break
    return found


def _members(thing: type) -> Iterator[str]:
    """Public methods and properties that have a docstring, one line each."""
    lines = []
    for name, member in vars(thing).items():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        text = inspect.getdoc(function) if inspect.isfunction(function) else None
        if name.startswith("_") or not text:
            continue
        called = "" if isinstance(member, property) else _arguments(function)
        lines.append(f"- `{name}{called}`: {_joined(text.split(chr(10) * 2)[0])}")
    if lines:
        yield "**Members**"
        yield "\n".join(lines)


def _arguments(function: Any) -> str:
    names = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]
    return f"({', '.join(names)})"


def _value(room: ModuleType, name: str, thing: Any) -> list[str]:
    """A type or a prepared function: what its module says below its name."""
    for key in sorted(each for each in sys.modules if each.startswith(f"{room.__name__}.")):
        module = sys.modules[key]
        text = _below(module, name) if getattr(module, name, None) is thing else None
        if text is not None:
            return [f"    {name} = {text[0]}", _prose(text[1])]
    raise SystemExit(f"{name} is not assigned in {room.__name__}.")


def _below(module: ModuleType, name: str) -> tuple[str, str] | None:
    """The value that a module assigns to a name, as written, and the text that follows it."""
    body = ast.parse(inspect.getsource(module)).body
    for place, each in enumerate(body):
        targets = each.targets if isinstance(each, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(each, ast.Assign)
            return ast.unparse(each.value), _text(body[place + 1 : place + 2])
    return None


def _text(statements: list[ast.stmt]) -> str:
    match statements:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            return inspect.cleandoc(text)
    return ""


def _prose(docstring: str) -> str:
    """Sections of a docstring as Markdown."""
    opening, *rest = _SECTION.split(docstring)
    parts = [opening.strip()]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        text = inspect.cleandoc(body.strip("\n"))
        own, _, later = text.partition("\n\n") if title in ("Args", "Raises") else (text, "", "")
        parts.append(f"**{_TITLES.get(title, title)}**")
        parts.append(_items(own) if title in ("Args", "Raises") else own)
        parts.append(later)
    return "\n\n".join(part for part in parts if part)


def _items(text: str) -> str:
    """`name: meaning` as a list; a deeper line goes on with the one before."""
    lines = [_joined(each) for each in re.split(r"\n(?=\S)", text)]
    return "\n".join(re.sub(r"^([\w*, ]+): ", r"- `\1`: ", line) for line in lines)


def _joined(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    """Write, or fail if a page is stale."""
    wanted = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    stale = sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))
    if "--check" in sys.argv:
        raise SystemExit(f"stale: {', '.join(stale)}: run docs/make_api.py" if stale else 0)
    PAGES.mkdir(exist_ok=True)
    for name in stale:
        if name in wanted:
            (PAGES / name).write_text(wanted[name], encoding="utf-8")
        else:
            (PAGES / name).unlink()
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
