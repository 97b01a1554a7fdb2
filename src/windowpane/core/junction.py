"""Where several inputs of an operator meet: their messages become the messages of one input.

Data passes at once. Time moves once per micro-batch, after the data of all inputs, to the smallest of their watermarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from windowpane.core.frames import BatchEnd, Clock, ControlSignal, Frame, Watermark


class Port(Protocol):
    @property
    def port(self) -> str: ...


class Junction:
    """The inputs of one operator within a micro-batch. Nothing of it outlives the micro-batch."""

    def __init__(self, inputs: Sequence[Port]) -> None:
        self._ports = frozenset(each.port for each in inputs)
        self._clock: Clock | None = None
        self._ended: set[str] = set()
        self._watermarks: dict[str, int] = {}

    def combine(self, port: str, frame: Frame, announced_us: int | None, reached_us: int | None) -> Sequence[Frame]:
        """The frames that the operator gets for one that arrives at `port`.

        `announced_us`: the watermark of the operator that feeds the port, None for an entry, whose host repeats it in
        every micro-batch. `reached_us`: the watermark that the operator behind the junction has heard of.
        """
        match frame:
            case Clock():
                repeated, self._clock = frame == self._clock, frame
                return () if repeated else (frame,)
            case Watermark():
                self._watermarks[port] = frame.us
                return ()
            case BatchEnd() | ControlSignal():
                if announced_us is not None:
                    self._watermarks[port] = announced_us
                self._ended.add(port)
                return self._end(frame, reached_us) if self._ended == self._ports else ()
        return (frame,)

    def _end(self, frame: Frame, reached_us: int | None) -> Sequence[Frame]:
        """The micro-batch of all inputs has ended."""
        known, self._ended, self._clock, self._watermarks = self._watermarks, set(), None, {}
        target_us = min(known.values()) if known.keys() == self._ports else None
        if target_us is None or not isinstance(frame, BatchEnd) or (reached_us is not None and target_us <= reached_us):
            return (frame,)
        return Watermark(target_us), frame
