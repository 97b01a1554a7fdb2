"""A sink that fails is tried again, a little later each time; then the pipeline stops and names it."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.errors import SinkError, gist

_log = logging.getLogger("windowpane.sinks")


_MISTAKES = (AnalysisException, ImportError, NameError, TypeError, AttributeError, NotImplementedError)
"""Of the query, the table's columns or the user's function: the next try would find them as they are."""
_LASTING = re.compile(
    r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError|DATA_SOURCE_NOT_FOUND|AccessControlException|"
    r"AccessDenied|Authentication\w*Exception|Authorization\w*Exception|authentication failed|permission denied",
    re.IGNORECASE,
)
"""What servers and Java say when something is missing or not allowed."""


def may_pass(failed: BaseException | None) -> bool:
    """Whether the next try may succeed: a server that is away comes back, a missing class does not."""
    while failed is not None:
        if isinstance(failed, _MISTAKES) or (isinstance(failed, SinkError) and not failed.passing):
            return False
        if _LASTING.search(gist(failed)):
            return False
        failed = failed.__cause__
    return True


class RetryingSink(Sink):
    """Another sink, tried again after each of `pauses`. SinkError when the last try fails too.

    Nothing is lost by that: the batch is not committed, and the next start replays it. While `stopping` is set there
    is one try: a query that is being stopped cancels what its sinks do. So it is for an error that will not pass.
    `redact` takes out of messages what must not be shown.
    """

    def __init__(
        self, sink: Sink, stopping: threading.Event, pauses: Sequence[float], redact: Callable[[str], str] = str
    ) -> None:
        super().__init__(sink.name)
        self.delivery, self.wants_identity = sink.delivery, sink.wants_identity
        self._sink, self._pauses, self._stopping, self._redact = sink, tuple(pauses), stopping, redact

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        self._sink.open(spark, identified=identified)

    def write(self, batch: SinkBatch) -> None:
        for number, pause in enumerate(self._pauses, start=1):
            try:
                return self._sink.write(batch)
            except Exception as failed:
                if self._stopping.is_set():
                    raise
                if not may_pass(failed):
                    raise self._refused(failed, batch) from failed
                _log.warning(
                    "sink `%s`, batch %d: attempt %d of %d failed, next attempt in %g s: %s",
                    self.name, batch.batch_id, number, len(self._pauses) + 1, pause, self._gist(failed),
                )  # fmt: skip
                self.retries += 1
                self._stopping.wait(pause)
        return self._last_try(batch)

    def _last_try(self, batch: SinkBatch) -> None:
        try:
            self._sink.write(batch)
        except Exception as failed:
            raise SinkError(
                "SINK_FAILED",
                f"sink `{self.name}` could not take batch {batch.batch_id}, tried {len(self._pauses) + 1} times: "
                f"{self._gist(failed)}",
                "nothing is lost: the batch is not committed, and the next start repeats it",
            ) from failed

    def _gist(self, failed: Exception) -> str:
        return self._redact(gist(failed)).removeprefix(f"sink `{self.name}` ")

    def _refused(self, failed: Exception, batch: SinkBatch) -> SinkError:
        if isinstance(failed, SinkError) and not failed.passing:
            return SinkError(failed.code, self._redact(failed.message), failed.hint, passing=False)
        message = f"sink `{self.name}` could not take batch {batch.batch_id}: {self._gist(failed)}"
        hint = "trying again would not help. The batch is not committed, and comes again at the next start"
        return SinkError("SINK_FAILED", message, hint, passing=False)

    def refuses_record(self, failed: BaseException | None) -> bool:
        return self._sink.refuses_record(failed)

    def close(self) -> None:
        self._sink.close()
