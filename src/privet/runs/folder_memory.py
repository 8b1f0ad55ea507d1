"""What a run of many processes remembers: tensors under names, each whole or not at all.

What was paid for lies apart from what can be made again. A release lies beside a probe: a few
numbers that its embedding makes of fixed images or rows. Another encoder, or another draw of
projections, makes others, and would read it in the wrong coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from privet.data.guard import shown
from privet.errors import DataError
from privet.recipes.releases import PAID_FOR, Tensors
from privet.release import Embedding
from privet.runs.run_folder import RELEASES, STEPS, RunFolder

_PROBE = "probe:"
_PROBE_ROWS = 2
_PROBE_NUMBERS = 48  # of each source
_TOLERANCE = 1e-2  # other machines round otherwise
_LEARNED = "learned-"
_UNFINISHED = "unfinished-"
_PUT_BACK = "put back a copy, since steps that were paid for are in it, or start again with --force"


class FolderMemory:
    """Keeps steps and releases in a run's folder.

    Args:
        folder: the run's folder.
        shape: the shape of what an embedding takes: of an image, or of an encoded row of a table.
        origins: what files of steps say of the public rows that taught them, by their names.
    """

    def __init__(
        self,
        folder: RunFolder,
        shape: tuple[int, ...],
        origins: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._folder, self._shape, self._origins = folder, shape, origins or {}

    @property
    def num_paid(self) -> int:
        """How many releases are kept."""
        return len(self._kept() - self.learned_names)

    @property
    def learned_names(self) -> frozenset[str]:
        """Names of what was learned from private images, and is kept."""
        return frozenset(each for each in self._kept() if each.startswith(_LEARNED))

    def once(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Read what was made under this name, or make and write it."""
        file = f"{STEPS}/{name}.safetensors"
        if self._folder.has(file):
            made = self._read(file, "remove it, and it is made again")
        else:
            made = make()
            self._write(file, made, self._origins.get(name))
        self._folder.discard(_unfinished(name))
        return made

    def has(self, name: str) -> bool:
        """Whether something was made under this name by `once`."""
        return self._folder.has(f"{STEPS}/{name}.safetensors")

    def every(self, names: Sequence[str], make: Callable[[int], Tensors]) -> list[Tensors]:
        """Do as `once` for each name, one after the other."""
        return [self.once(name, partial(make, place)) for place, name in enumerate(names)]

    def paid(self, name: str, embedding: Embedding, make: Callable[[], Tensors]) -> Tensors:
        """Read a release and recognise its embedding; or make and write it.

        It is made only once it is sure that it can be written.
        """
        file, zeros = f"{RELEASES}/{name}.safetensors", embedding.zeros()
        probe = probe_of(embedding, self._shape)
        if self._folder.has(file):
            kept = self._read(file, "put back a copy, or start again with --force")
            return self._recognised(file, kept, zeros, probe)
        self._folder.rehearse(file, _bytes({**zeros, **probe}, PAID_FOR))
        made = make()
        self._write(file, {**made, **probe}, PAID_FOR)
        return made

    def learned(self, name: str, like: Tensors, make: Callable[[], Tensors]) -> Tensors:
        """Read weights of these shapes; or make and write them.

        They are made only once it is sure that they can be written.
        """
        file = f"{RELEASES}/{_LEARNED}{name}.safetensors"
        if self._folder.has(file):
            made = self._read(file, "put back a copy, or start again with --force")
            if _shapes(made) != _shapes(like):
                raise DataError(
                    f"{shown(self._folder / file)} has other layers or sizes than this run's: "
                    "bring back its own, or start again with --force."
                )
        else:
            self._folder.rehearse(file, _bytes(like, PAID_FOR))
            made = make()
            self._write(file, made, PAID_FOR)
        self._folder.discard(_unfinished(name))
        return made

    def unfinished(self, name: str, *, paid: bool = False) -> Tensors | None:
        """Return what `keep` wrote last under this name, or None."""
        file = _unfinished(name)
        if not self._folder.has(file):
            return None
        return self._read(file, _PUT_BACK if paid else "remove it, and it begins again")

    def keep(self, name: str, state: Tensors) -> None:
        """Write how far something has got, in place of what was kept before."""
        self._write(_unfinished(name), state)

    def _kept(self) -> frozenset[str]:
        return frozenset(each.stem for each in (self._folder / RELEASES).glob("*.safetensors"))

    def _read(self, file: str, remedy: str) -> Tensors:
        try:
            return load_file(self._folder / file)
        except (OSError, SafetensorError) as error:
            raise DataError(
                f"{shown(self._folder / file)} cannot be read ({error}): {remedy}."
            ) from None

    def _write(self, file: str, made: Tensors, metadata: Mapping[str, str] | None = None) -> None:
        content = _bytes(made, metadata)
        self._folder.write_with(file, lambda path: path.write_bytes(content))

    def _recognised(self, file: str, kept: Tensors, zeros: Tensors, probe: Tensors) -> Tensors:
        blocks = {name: each for name, each in kept.items() if not name.startswith(_PROBE)}
        stored = {name: each for name, each in kept.items() if name.startswith(_PROBE)}
        if _shapes(blocks) == _shapes(zeros) and same_probe(stored, probe):
            return blocks
        raise DataError(
            f"{shown(self._folder / file)} was released through another encoder or projection: "
            "bring back what it was made with, or start again with --force."
        )


def _unfinished(name: str) -> str:
    return f"{STEPS}/{_UNFINISHED}{name}.safetensors"


def probe_of(embedding: Embedding, shape: tuple[int, ...]) -> Tensors:
    """Compute what an embedding makes of fixed images or rows, and where it is centred."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (_PROBE_ROWS, *shape), generator=generator).byte()
    with torch.no_grad():
        found = dict(embedding.features(pixels if len(shape) == 3 else pixels / 127.5 - 1))
    for part in embedding.parts:
        found |= {f"centre {part.name} {kind}": each for kind, each in part.centres.items()}
    return {_PROBE + name: _some(each) for name, each in found.items()}


def _some(values: Tensor) -> Tensor:
    """Take as many numbers as a probe has, from all over."""
    flat = values.flatten().float().cpu()
    return flat[:: max(1, len(flat) // _PROBE_NUMBERS)][:_PROBE_NUMBERS].clone()


def same_probe(stored: Tensors, probe: Tensors) -> bool:
    """Whether two probes are of the same embedding, but for the rounding of their machines."""
    return _shapes(stored) == _shapes(probe) and all(
        torch.allclose(
            stored[name], each, rtol=_TOLERANCE, atol=_TOLERANCE * float(each.abs().mean())
        )
        for name, each in probe.items()
    )


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: each.shape for name, each in tensors.items()}


def _bytes(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    plain = {name: each.detach().cpu().contiguous() for name, each in tensors.items()}
    return save(plain, None if metadata is None else dict(metadata))
