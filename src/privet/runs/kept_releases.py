"""What a run paid for is what its folder holds, or the run does not go on."""

from __future__ import annotations

from privet.data.guard import shown
from privet.errors import PrivacyError
from privet.privacy import GaussianRelease, Reservation
from privet.runs.folder_memory import FolderMemory
from privet.runs.run_folder import RELEASES, RunFolder


def require_kept(
    reservation: Reservation, memory: FolderMemory, folder: RunFolder, *, taught: bool = False
) -> None:
    """Refuse to go on if what was paid for is not what is there.

    Args:
        reservation: the reservation of the run.
        memory: the memory in its folder.
        folder: the run's folder.
        taught: whether an encoder learns from private images first.
    """
    releases, steps = _spent(reservation)
    kept = memory.num_paid
    if releases > kept or (releases and taught and not memory.learned_names):
        reservation.close()
        raise PrivacyError(
            "The run was killed after it paid for a release and before it wrote that down, so it "
            "cannot go on: start again with --force, which costs as much again."
        )
    if kept > releases:
        raise PrivacyError(
            f"{shown(folder / RELEASES)} holds {kept} releases and the run paid for {releases}: "
            "remove what belongs to another run."
        )
    if memory.learned_names and not steps:
        raise PrivacyError(
            f"{shown(folder / RELEASES)} holds an encoder and the run paid for no step of one: "
            "remove it, it belongs to another run."
        )


def _spent(reservation: Reservation) -> tuple[int, int]:
    """How many releases were paid for, and how many steps of an encoder's training."""
    record = reservation.record
    counts = {True: 0, False: 0}
    for event, spent in zip(record.plan.events if record.plan else (), record.spent, strict=True):
        counts[isinstance(event, GaussianRelease)] += spent
    return counts[True], counts[False]
