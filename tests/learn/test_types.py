"""The type checker keeps private gradients out of the slots that are for public ones."""

import re

import pytest

api = pytest.importorskip("mypy.api")

# Only Privet itself is read: what tensors are does not matter here, and takes long.
SETTINGS = """
[mypy]
strict = True
follow_imports = skip
ignore_missing_imports = True
[mypy-privet.*]
follow_imports = silent
"""

GRADIENTS = {
    "public": ("PublicGradient", True),
    "private": ("PrivateGradient", False),
    "per_unit": ("PerUnitGradients", False),
    "blocks": ("Blocks", False),
}

CALLS = {
    "origin": "PublicOrigin().origin({}, given)",
    "learn": "PublicMoments().learn({}, given)",
    "scale": "PublicMoments().scale({}, given)",
    "perturb": "Ascent().perturbed({}, [given], generator)",
    "update": "SGD().apply({}, PrivateGradient({}), given, {}, Pace(1.0, 0, 1))",
}

HEAD = """
import torch
from privet.learn.gradients import Blocks, PerUnitGradients, PrivateGradient, PublicGradient
from privet.learn.origins import LastPrivate, PublicOrigin
from privet.learn.perturbations import Ascent
from privet.learn.scales import PublicMoments
from privet.learn.updates import SGD, Pace

generator: torch.Generator
"""


def function(name, kind, call):
    return f"def {name}(given: {kind}) -> None:\n    {call}\n"


def snippets():
    """Every gradient in every slot for public ones; per-unit ones where private ones belong."""
    for slot, call in CALLS.items():
        for gradient, (kind, right) in GRADIENTS.items():
            yield f"{slot}_{gradient}", kind, call, right
    for gradient, (kind, _) in GRADIENTS.items():
        remember = "LastPrivate().remember({}, given)"
        yield f"remember_{gradient}", kind, remember, gradient == "private"
        step = "SGD().apply({}, given, None, {}, Pace(1.0, 0, 1))"
        yield f"step_{gradient}", kind, step, gradient == "private"


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Error codes by the name of the function that they are in, from one run."""
    place = tmp_path_factory.mktemp("types")
    source = HEAD + "".join(function(*each[:3]) for each in snippets())
    (place / "snippet.py").write_text(source)
    (place / "mypy.ini").write_text(SETTINGS)
    options = ["--config-file", str(place / "mypy.ini"), "--cache-dir", str(place / "cache")]
    output, problem, _ = api.run([*options, str(place / "snippet.py")])
    assert not problem
    lines, found = source.splitlines(), {}
    for number, code in re.findall(r"snippet\.py:(\d+): error: .*\[([\w-]+)\]", output):
        above = lines[int(number) - 2]
        found.setdefault(re.match(r"def (\w+)", above)[1], set()).add(code)
    return found


@pytest.mark.parametrize(
    ("name", "right"), [pytest.param(each[0], each[3], id=each[0]) for each in snippets()]
)
def test_only_the_right_kind_of_gradient_fits_a_slot(errors, name, right):
    wrong = {"list-item"} if name.startswith("perturb") else {"arg-type"}
    assert errors.get(name, set()) == (set() if right else wrong)
