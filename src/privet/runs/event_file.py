"""Events as TensorBoard reads them: a file that is appended to, and that knows no clock.

When a step ended would tell how many rows were drawn for it, so that all events of a file bear the
time at which it was begun; nor does its name tell whose machine wrote it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from privet.data.disk import writing
from privet.errors import ConfigError

PATTERN = "events.out.tfevents.*"  # readers look for this in a name
_VERSION = "brain.Event:2"


def check_installed() -> None:
    """Refuse to write events where TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise ConfigError(
            "tensorboard is not installed; run pip install 'privet[tensorboard]' to get it, or "
            "leave out --tensorboard."
        )


@dataclass(frozen=True)
class EventFile:
    """A file of events, which only ever grows.

    Args:
        path: where the file lies.
        begun: seconds since 1970, the time of all its events.
    """

    path: Path
    begun: float

    @classmethod
    def following(cls, others: list[Path], place: Path) -> Self:
        """Begin an empty file in a folder, after others, which it tells readers to forget."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        last = max((int(path.suffixes[-2][1:]) for path in others), default=0)
        name = PATTERN.replace("*", f"{last + 1:06d}.privet")
        file = cls(place / name, float(int(time.time())))
        with writing(place):
            place.mkdir(exist_ok=True)
        file._append(file_version=_VERSION)
        file._append(step=0, session_log=SessionLog(status=SessionLog.START))
        return file

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Append some numbers of one step."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        found = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._append(step=step, summary=Summary(value=found))

    def picture(self, step: int, tag: str, png: bytes, size: tuple[int, int]) -> None:
        """Append an image, as its PNG file has it, with its width and height."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        width, height = size
        image = Summary.Image(width=width, height=height, encoded_image_string=png)
        self._append(step=step, summary=Summary(value=[Summary.Value(tag=tag, image=image)]))

    def _append(self, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        event = Event(wall_time=self.begun, **content)
        with writing(self.path), self.path.open("ab") as file:
            RecordWriter(file).write(event.SerializeToString())
