"""Imports go one way, as data flows; bookkeeping never waits for torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import privet

SOURCE = Path(privet.__file__).parent

# For each room, the rooms it may import. Anyone may import `privacy`: a certificate is just data.
_ALONE = {"privacy"}
_TOOLS = {"privacy", "data", "models", "augment", "optim"}
ALLOWED = {
    "privacy": set(),
    "data": _ALONE,
    "models": _ALONE,
    "augment": _ALONE,
    "optim": _ALONE,
    "public": _TOOLS,
    "hedge": _ALONE,
    "learn": {*_TOOLS, "public", "hedge"},
    "release": {*_TOOLS, "public", "hedge"},
    "synthesis": {*_TOOLS, "public", "release"},
    "share": _TOOLS,
    "measure": _TOOLS,
    "recipes": {
        *_TOOLS,
        *("public", "hedge", "learn", "release", "synthesis", "share", "measure"),
    },
    "runs": {
        *_TOOLS,
        *("public", "hedge", "learn", "release", "synthesis", "share", "measure", "recipes"),
        "report",
    },
    "report": _ALONE,
    "federate": {"privacy", "data", "public", "hedge", "release", "recipes", "runs"},
    "audit": {
        *_TOOLS,
        *("public", "hedge", "learn", "release", "synthesis", "measure", "recipes", "runs"),
    },
    "cli": {"privacy", "data", "recipes", "runs", "report", "federate", "audit"},
}
# Nothing private may pass through these, so they cannot even name the hedge.
NEVER_SEE_THE_HEDGE = ("public", "models", "augment", "optim", "share", "measure", "report", "cli")


def imported_rooms(source):
    """Every room that a module imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "privet" and len(parts) > 1 and (SOURCE / parts[1]).is_dir():
                yield parts[1]


def wrong_imports(room, source):
    return set(imported_rooms(source)) - ALLOWED[room] - {room}


def test_every_room_is_known():
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= set(ALLOWED)


@pytest.mark.parametrize(
    "path", sorted(SOURCE.glob("*/**/*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_imports_go_one_way(path):
    room = path.relative_to(SOURCE).parts[0]
    assert wrong_imports(room, path.read_text()) == set()


def test_the_check_can_fail():
    assert wrong_imports("privacy", "def f():\n    from privet.hedge import Hedge") == {"hedge"}
    assert wrong_imports("data", "import privet.release.class_blocks") == {"release"}
    assert wrong_imports("cli", "from privet import hedge") == {"hedge"}


def test_the_rules_have_no_cycle_and_keep_the_hedge_closed():
    def reachable(room, seen=()):
        assert room not in seen, f"cycle through {room}"
        return set(ALLOWED[room]).union(*(reachable(r, (*seen, room)) for r in ALLOWED[room]))

    for room in ALLOWED:
        reachable(room)
    assert not any("hedge" in ALLOWED[room] for room in NEVER_SEE_THE_HEDGE)


@pytest.mark.parametrize(
    "code",
    [
        "import privet",
        "import privet.privacy, privet.data, privet.cli.app",
        "from privet.cli import main; main(['--help'])",
        "from privet.cli import main\n"
        "main(['account', '--epsilon', '1', '--delta', '1e-5', '--releases', '1', '--json'])",
        "from privet.cli import main\n"
        "main(['account', '--noise-multiplier', '1', '--delta', '1e-5', '--sample-rate', '0.1',"
        " '--steps', '3', '--accountant', 'rdp'])",
        "from privet.cli import main; main(['ledger', 'show', 'nowhere.db'])",
    ],
)
def test_bookkeeping_never_imports_torch(code):
    check = (
        f"import sys\ntry:\n    exec({code!r})\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)


def test_top_level_names():
    assert privet.Hedge.__module__ == "privet.hedge.hedge"
    assert privet.Ledger.__module__ == "privet.privacy.ledger"
    assert privet.data.load is not None
    assert set(dir(privet)) == set(privet.__all__)
    for room in (privet, privet.recipes, privet.runs):
        assert all(getattr(room, name) is not None for name in dir(room))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = privet.nonsense
