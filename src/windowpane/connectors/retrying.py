"""Retries failed writes of a sink with growing pauses, and tells errors that may pass from those that will not."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.errors import SinkError, StateError, gist

_log = logging.getLogger("windowpane.sinks")


_MISTAKES = (AnalysisException, ImportError, NameError, TypeError, AttributeError, NotImplementedError)
"""Mistakes in the query, the table's columns or the user's function, which another attempt would not fix."""
_LASTING = re.compile(
    r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError|DATA_SOURCE_NOT_FOUND|AccessControlException|"
    r"Access ?Denied|no pg_hba\.conf entry|(?:role|database|schema|relation|table) \S+ does not exist|Unknown database|"
    r"Authentication\w*Exception|Authorization\w*Exception|authentication failed|permission denied",
    re.IGNORECASE,
)
"""Messages of servers and Java about something that is missing or not allowed."""


def may_pass(failed: BaseException | None) -> bool:
    """Whether another attempt may succeed: an unreachable server may come back, a missing class does not."""
    while failed is not None:
        if isinstance(failed, _MISTAKES) or (isinstance(failed, SinkError) and not failed.passing):
            return False
        if _LASTING.search(gist(failed)):
            return False
        failed = failed.__cause__
    return True


class RetryingSink(Sink):
    """Wraps a sink and retries after each of `pauses`. Raises SinkError if the last attempt fails.

    Nothing is lost then: the batch is not committed, and the next start replays it. There is no retry while `stopping`
    is set, because Spark cancels the work of a query that it stops, nor after an error that would occur again.
    `redact` removes secrets from messages.
    """

    def __init__(
        self, sink: Sink, stopping: threading.Event, pauses: Sequence[float], redact: Callable[[str], str] = str
    ) -> None:
        super().__init__(sink.name)
        self.delivery, self.wants_identity, self.can_wait = sink.delivery, sink.wants_identity, sink.can_wait
        self._sink, self._pauses, self._stopping, self._redact = sink, tuple(pauses), stopping, redact

    @property
    def place(self) -> str | None:
        return self._sink.place

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        self._sink.open(spark, identified=identified)

    def check(self, columns: Sequence[str]) -> None:
        self._sink.check(columns)

    def write_once(self, batch: SinkBatch) -> None:
        """The same without retries; raises what the sink raises."""
        batch.check_lease()
        self._sink.write(batch)

    def may_pass(self, failed: BaseException) -> bool:
        """Whether the sink may take the batch when it is tried again."""
        return may_pass(failed) and not self._sink.refuses_record(failed)

    def write(self, batch: SinkBatch, within: float | None = None) -> None:
        """`within`: seconds after which no further attempt begins. None: all attempts are made."""
        batch.check_lease()
        began = time.monotonic()
        for number, pause in enumerate((*self._pauses, None), start=1):
            try:
                return self._sink.write(batch)
            except StateError:  # of the checkpoint: the sink is not to blame
                raise
            except Exception as failed:
                if pause is not None and self._stopping.is_set():
                    raise
                if not self.may_pass(failed):
                    raise self._refused(failed, batch) from failed
                if pause is None or (within is not None and time.monotonic() + pause > began + within):
                    raise self._given_up(failed, batch, number) from failed
                _log.warning(
                    "sink `%s`, batch %d: attempt %d of %d failed, next attempt in %g s: %s",
                    self.name, batch.batch_id, number, len(self._pauses) + 1, pause, self._gist(failed),
                )  # fmt: skip
                self.retries += 1
                self._stopping.wait(pause)
        return None

    def _given_up(self, failed: Exception, batch: SinkBatch, attempts: int) -> SinkError:
        return SinkError(
            "SINK_FAILED",
            f"sink `{self.name}` could not take batch {batch.batch_id}, tried {attempts} times: {self._gist(failed)}",
            "nothing is lost: the batch is not committed, and the next start repeats it",
        )

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
