"""A sink that fails is tried again, a little later each time; then the pipeline stops and names it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.errors import SinkError, WindowpaneError

PAUSES = (0.5, 1.0, 2.0)
"""Seconds before the second try and those after it."""
_log = logging.getLogger("windowpane.sinks")


class RetryingSink(Sink):
    """Another sink, tried again after each of `pauses`. SinkError when the last try fails too.

    Nothing is lost by that: the batch is not committed, and the next start replays it.
    """

    def __init__(self, sink: Sink, pauses: Sequence[float] = PAUSES) -> None:
        super().__init__(sink.name)
        self.delivery = sink.delivery
        self._sink, self._pauses = sink, tuple(pauses)
        self._closing = threading.Event()

    def write(self, batch: SinkBatch) -> None:
        for number, pause in enumerate(self._pauses, start=1):
            try:
                return self._sink.write(batch)
            except Exception as failed:  # noqa: BLE001  # whatever a sink's client raises
                _log.warning(
                    "sink `%s`, batch %d: try %d of %d failed, again in %g s: %s",
                    self.name, batch.batch_id, number, len(self._pauses) + 1, pause, _first_line(failed),
                )  # fmt: skip
                if self._closing.wait(pause):
                    break
        return self._last_try(batch)

    def _last_try(self, batch: SinkBatch) -> None:
        try:
            self._sink.write(batch)
        except Exception as failed:
            raise SinkError(
                "SINK_FAILED",
                f"sink `{self.name}` could not take batch {batch.batch_id}, tried {len(self._pauses) + 1} times: "
                f"{_first_line(failed)}",
                "nothing is lost: the batch is not committed, and comes again when the pipeline is started again",
            ) from failed

    def close(self) -> None:
        self._closing.set()
        self._sink.close()


def _first_line(failed: Exception) -> str:
    if isinstance(failed, WindowpaneError):
        return failed.message
    told = next((line.strip() for line in str(failed).splitlines() if line.strip()), "")
    return f"{type(failed).__name__}: {told}" if told else type(failed).__name__
