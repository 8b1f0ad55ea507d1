"""Encoders of public images, kept for other runs: the same images and settings make the same one.

The folder may be emptied at any time. What is not as it should be is trained again and replaced.

Guarantees:
    Only what learned from `PublicRows` is kept. An encoder that private images teach is the hedge's
    and its run's, and never comes here.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from privet.data.disk import write_whole, writing
from privet.data.guard import shown
from privet.errors import ConfigError, DataError
from privet.paths import as_path
from privet.recipes.public_encoders import Once, PublicTraining
from privet.recipes.releases import Tensors

SCHEMA = "privet.encoder/1"
"""What is kept says it of itself; another one whenever training makes other weights."""
_DIGEST_BYTES = 16


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder PRIVET_CACHE, or the user's own cache.

    None if PRIVET_CACHE is empty, or the user has no home.
    """
    named = environment.get("PRIVET_CACHE")
    if named == "":
        return None
    above = Path(environment.get("XDG_CACHE_HOME", ""))
    try:
        if named is not None:
            return as_path(named)
        return (above if above.is_absolute() else Path.home() / ".cache") / "privet"
    except RuntimeError:
        return None


class CachedEncoders:
    """A run's memory, and behind it what other runs made of public images.

    Args:
        memory: the run's memory, which comes first.
        folder: the folder of all runs; None if nothing is kept.
        note: told what was found, and what went wrong.
    """

    def __init__(self, memory: Once, folder: Path | None, note: Callable[[str], None]) -> None:
        self._memory, self._folder, self._note = memory, folder, note

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Return what the run remembers, what another run kept, or what is made now."""
        folder = self._folder
        if folder is None or not isinstance(make, PublicTraining):
            return self._memory.once(name, make)
        return self._memory.once(name, lambda: self._found(folder, make))

    def _found(self, folder: Path, training: PublicTraining) -> Tensors:
        key = key_of(training)
        path = folder / f"encoder-{key}.safetensors"
        try:
            found = _read(path, key, training)
        except FileNotFoundError:
            pass
        except DataError as problem:
            self._note(f"{problem} The encoder is trained again.")
        else:
            self._note(f"The encoder learned from the same images before, into {shown(path)}.")
            return found
        made = training()
        try:
            _write(path, key, made)
        except ConfigError as problem:
            self._note(f"{problem} The encoder is not kept for other runs.")
        return made


def key_of(training: PublicTraining) -> str:
    """A hash of everything that decides an encoder's weights."""
    rows = training.public
    settings = (SCHEMA, training.encoder, training.shape, tuple(rows.inputs.shape))
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=_DIGEST_BYTES)
    for each in (rows.inputs, rows.targets):
        digest.update(each.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _read(path: Path, key: str, training: PublicTraining) -> Tensors:
    """Read an encoder's weights; refuse what is not as it was written."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            # Copied, since the file is any process's to replace.
            found = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise
    except (OSError, SafetensorError) as error:
        raise DataError(f"{shown(path)} cannot be read ({error}).") from None
    if metadata != _metadata(key):
        raise DataError(f"{shown(path)} is of another version, or of other images or settings.")
    with torch.device("meta"):
        network = training.encoder.network(training.shape)
    if _layout(found) != _layout(network.state_dict()):
        raise DataError(f"{shown(path)} has other layers or sizes.")
    if not all(each.isfinite().all() for each in found.values()):
        raise DataError(f"{shown(path)} has weights that are not finite.")
    return found


def _write(path: Path, key: str, made: Tensors) -> None:
    """Write an encoder's weights, whole or not at all, whoever else writes the same."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    draft = f"{path.name}.{uuid.uuid4().hex[:8]}.part"
    write_whole(path, save(made, _metadata(key)), draft)


def _metadata(key: str) -> dict[str, str]:
    return {"schema": SCHEMA, "key": key}


def _layout(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (each.shape, each.dtype) for name, each in tensors.items()}
