"""A run's progress on disk: one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as as_bytes
from torch import Tensor

from privet.data.disk import writing
from privet.errors import DataError
from privet.learn.equation import State
from privet.learn.gradients import Blocks
from privet.learn.training import Progress
from privet.plain_json import WRONG_VALUES, parsed

_SCHEMA = "privet.checkpoint/1"


def save(path: Path, progress: Progress) -> None:
    """Write a checkpoint durably, in the place of an earlier one."""
    draft = path.with_name(path.name + ".part")
    tensors = {name: block.contiguous() for name, block in flat(progress)}
    names = json.dumps(list(progress.state.weights))
    with writing(path):
        try:
            save_tensors(
                tensors, draft, {"schema": _SCHEMA, "step": str(progress.step), "names": names}
            )
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write tensors and metadata to a safetensors file.

    `save_file` is not used: it has a draft of its own, which a kill leaves under a random name,
    and no one else may read the file that it makes.
    """
    path.write_bytes(as_bytes(tensors, metadata))


def load(path: Path, device: str = "cpu") -> Progress:
    """Read a checkpoint that `save` wrote."""
    try:
        with safe_open(path, framework="pt", device=device) as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read ({error}): start again without --resume.") from None
    if metadata.get("schema") != _SCHEMA:
        raise DataError(f"{path} is not a checkpoint of this version of Privet.")
    try:
        return restored(tensors, int(metadata["step"]), parsed(metadata["names"]))
    except WRONG_VALUES as error:
        raise DataError(f"{path} is damaged ({error!r}): start again without --resume.") from None


def require_layout(progress: Progress, weights: Blocks, path: Path) -> None:
    """Refuse a checkpoint of another network.

    Args:
        progress: the checkpoint as it was loaded.
        weights: those of the network that is to be trained.
        path: where the checkpoint lies, for the refusal.
    """
    layout = [(name, each.shape) for name, each in weights.items()]
    state = progress.state
    parts = [state.weights, progress.average, state.scale, state.origin]
    for blocks in (*parts, *state.update.values(), *progress.ring):
        if blocks and [(name, each.shape) for name, each in blocks.items()] != layout:
            raise DataError(f"{path} is of another network: start again without --resume.")
        if not all(each.is_floating_point() for each in blocks.values()):
            raise DataError(f"{path} has weights that are no numbers: start again.")


def flat(progress: Progress) -> Iterator[tuple[str, Tensor]]:
    """All tensors of a run by names such as `update/momentum/layer.weight`.

    They are copies, since parts may share tensors.
    """
    state = progress.state
    parts = {
        "weights": state.weights,
        "average": progress.average,
        "scale": state.scale,
        "origin": state.origin,
        **{f"update/{name}": blocks for name, blocks in state.update.items()},
        **{f"ring/{place:06d}": blocks for place, blocks in enumerate(progress.ring)},
    }
    for part, blocks in parts.items():
        for name, block in blocks.items():
            yield f"{part}/{name}", block.clone()


def restored(tensors: Mapping[str, Tensor], step: int, names: list[str]) -> Progress:
    """Put a run together from the tensors of a file.

    Blocks get back the order of `names`, which gradients and noise go by and files do not keep.
    """
    found: dict[str, Blocks] = {}
    for name, tensor in tensors.items():
        part, _, rest = name.partition("/")
        if part in ("update", "ring"):
            key, _, rest = rest.partition("/")
            part = f"{part}/{key}"
        found.setdefault(part, {})[rest] = tensor
    parts = {part: {name: blocks[name] for name in names} for part, blocks in found.items()}
    state = State(
        weights=parts["weights"],
        step=step,
        scale=parts.get("scale", {}),
        origin=parts.get("origin", {}),
        update=_under("update/", parts),
    )
    ring = tuple(blocks for _, blocks in sorted(_under("ring/", parts).items()))
    return Progress(state=state, average=parts["average"], ring=ring)


def _under(prefix: str, parts: dict[str, Blocks]) -> dict[str, Blocks]:
    return {
        name.removeprefix(prefix): blocks
        for name, blocks in parts.items()
        if name.startswith(prefix)
    }
