"""What federations need installed, and an environment in which it reports to nobody."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from privet.errors import ConfigError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""The environment in which nothing is reported to anyone."""


def require_flower(*, simulation: bool = False) -> None:
    """Refuse in one sentence where Flower is not installed, and keep it quiet where it is."""
    os.environ.update(QUIET)
    if (telemetry := sys.modules.get("flwr.supercore.telemetry")) is not None:
        telemetry.FLWR_TELEMETRY_ENABLED = "0"  # type: ignore[attr-defined]  # read on import
    needed = ("flwr", "ray") if simulation else ("flwr",)
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Federations need {' and '.join(missing)}: pip install 'privet[distributed]'."
        )
