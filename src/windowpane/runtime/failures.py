"""Turns Spark's exceptions into errors of windowpane: the cause in one line, and where to find the details."""

from __future__ import annotations

import re
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError

from windowpane import errors
from windowpane.checkpoint.store import unwritable
from windowpane.errors import SourceError, SparkError, WindowpaneError, gist
from windowpane.spark.gateway import START_FAILED

_OURS_IN_A_WORKER = re.compile(r"windowpane\.errors\.(\w+): \[([A-Z_]+)\] (.+)(?:\n  .*)*(?:\nhint: (.+))?")
"""As `WindowpaneError.render` writes it: code and message, lines that show a place, a hint."""
_PYTHON_ERROR = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_LOST_DATA = re.compile(r"\[KAFKA_DATA_LOSS[^\]]*\].*?Reason:\s*([^\n]+)", re.DOTALL)
"""Spark's Kafka source misses offsets while it plans a micro-batch."""
_GO_ON = (
    "the topic was truncated or created anew. Begin anew with windowpane reset, or go on without the lost messages: "
    "failOnDataLoss = false in the options of the stream"
)
_FULL = ("No space left on device", "Disk quota exceeded")
_LOST_EXECUTORS = ("ExecutorLostFailure", "FetchFailed", "cannot rollback")
"""What Spark says when it ends a job because executors were lost, too often or where it cannot go back."""
_WRAPPING = ("Traceback (most recent call last)", "Py4JJavaError", "StreamingQueryException", "PythonException")


def spark_failure(failed: BaseException, transform: str | None = None, log: Path | None = None) -> WindowpaneError:
    """The WindowpaneError that Spark has wrapped, also if a worker raised it; else a SparkError with the cause."""
    if isinstance(failed, WindowpaneError):
        return failed
    text = str(failed)
    ours = _OURS_IN_A_WORKER.search(text)
    if ours is not None:
        return _rebuilt(*ours.groups())
    if (lost := _LOST_DATA.search(text)) is not None:
        return SourceError("DATA_LOST", f"messages are gone from Kafka: {lost[1].strip()}", _GO_ON)
    if any(reason in text for reason in _FULL):
        return unwritable(transform or "Spark", gist(failed))
    if isinstance(failed, Py4JNetworkError | ConnectionError) or _has_no_answer(failed, text):
        return SparkError("SPARK_GONE", "Spark's process has ended: it was killed, or had no memory left", _see(log))
    what = f"transform `{transform}` stopped" if transform else "Spark could not run the pipeline"
    return SparkError("SPARK_FAILED", f"{what}: {_cause(failed, text)}", _see(log))


def _has_no_answer(failed: BaseException, text: str) -> bool:
    """Whether a call got an empty answer: the JVM ended while it ran. An error of Java comes with its trace."""
    return type(failed) is Py4JError and "Trace:" not in text


def is_lost_executor(failed: BaseException | None) -> bool:
    """Whether Spark has ended a job because it lost executors, also if a sink has wrapped that."""
    if failed is None:
        return False
    return any(reason in str(failed) for reason in _LOST_EXECUTORS) or is_lost_executor(failed.__cause__)


def start_failure(failed: BaseException, log: Path | None, logged: int = 0) -> WindowpaneError:
    """Spark itself did not start. `logged`: the size of the log in bytes before the attempt.

    An error of our own that names its cause stays as it is.
    """
    if isinstance(failed, WindowpaneError) and failed.code != START_FAILED:
        return failed
    last = _last_line(log, logged)
    return SparkError(START_FAILED, f"Spark did not start: {last or _cause(failed, str(failed))}", _see(log))


def _rebuilt(kind: str, code: str, message: str, hint: str | None) -> WindowpaneError:
    """An error of the class with this name; WindowpaneError if there is none."""
    found = getattr(errors, kind, WindowpaneError)
    known = isinstance(found, type) and issubclass(found, WindowpaneError)
    return found(code, message, hint) if known else WindowpaneError(code, message, hint)


def _cause(failed: BaseException, text: str) -> str:
    """The innermost Python error in the text, else its first meaningful line."""
    inner = [match for match in _PYTHON_ERROR.finditer(text) if not match.group(1).startswith(_WRAPPING)]
    if inner:
        return f"{inner[-1].group(1)}: {inner[-1].group(2)}".strip()
    return gist(failed)


def _last_line(log: Path | None, after: int) -> str | None:
    """The last line of a log that is not part of a Java stack."""
    if log is None or not log.is_file():
        return None
    text = log.read_bytes()[after:].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not line.startswith(("at ", "... "))), None)


def _see(log: Path | None) -> str | None:
    return f"Spark's log has the rest: {log}" if log is not None else None
