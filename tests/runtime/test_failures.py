"""What Spark raises, as users see it, and sinks that fail."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from windowpane.connectors.retrying import RetryingSink
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.errors import ConfigError, InternalError, SinkError, SparkError, gist
from windowpane.runtime.failures import spark_failure, start_failure

IN_A_WORKER = """\
Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times: org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "fold_stage.py", line 12, in run
    raise InternalError(
windowpane.errors.InternalError: [WATERMARK_FEEDBACK] batch 3 was told the watermark of batch 1, not the one before
"""
A_USERS_OWN = """\
[STREAM_FAILED] Query terminated with exception: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "mine.py", line 4, in update
ZeroDivisionError: division by zero
"""
FROM_JAVA = """\
An error occurred while calling o295.save.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


class Failing(Sink):
    def __init__(self, times: int) -> None:
        super().__init__("results")
        self.left, self.taken = times, list[int]()

    def write(self, batch: SinkBatch) -> None:
        if self.left:
            self.left -= 1
            raise OSError("the disk is full")
        self.taken.append(batch.batch_id)


def batch() -> SinkBatch:
    frame: Any = None
    return SinkBatch(4, frame)


def test_an_error_of_ours_in_a_worker_is_recognised() -> None:
    error = spark_failure(RuntimeError(IN_A_WORKER), "hot", Path("spark.log"))
    assert isinstance(error, InternalError)
    assert error.code == "WATERMARK_FEEDBACK"
    assert error.message == "batch 3 was told the watermark of batch 1, not the one before"
    assert error.hint is None


def test_an_error_of_ours_in_a_worker_keeps_its_hint() -> None:
    raised = ConfigError("STORE", "the bucket cannot be read", "set the keys", file="pipeline.toml", line=3)
    told = f"PythonException:\nTraceback:\n  File\nwindowpane.errors.ConfigError: {raised}\n\n\tat org.apache.spark.X"
    error = spark_failure(RuntimeError(told))
    assert isinstance(error, ConfigError)
    assert (error.code, error.message, error.hint) == ("STORE", "the bucket cannot be read", "set the keys")


def test_messages_that_spark_misses_in_kafka_are_lost_data() -> None:
    told = (
        "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost because they are not available in Kafka any "
        "more;\neither the data was aged out.\nReason:\nPartition t-0's offset was changed from 9 to 2.\n\tat x.Y"
    )
    error = spark_failure(RuntimeError(told), "hot")
    assert (error.code, error.message) == (
        "DATA_LOST", "messages are gone from Kafka: Partition t-0's offset was changed from 9 to 2.",
    )  # fmt: skip
    assert "failOnDataLoss" in (error.hint or "")


def test_an_error_of_someone_else_is_one_line_with_the_log() -> None:
    error = spark_failure(RuntimeError(A_USERS_OWN), "hot", Path("state/spark.log"))
    assert isinstance(error, SparkError)
    assert error.message == "transform `hot` stopped: ZeroDivisionError: division by zero"
    assert error.hint == "Spark's log has the rest: state/spark.log"


def test_javas_innermost_cause_is_told() -> None:
    assert gist(RuntimeError(FROM_JAVA)) == "IOException: No space left on device"
    assert gist(RuntimeError("An error occurred while calling o1.x.\n: a.b.SomeException: why")) == "SomeException: why"
    assert gist(ValueError("what")) == "ValueError: what"
    assert gist(RuntimeError("")) == "RuntimeError"
    assert gist(SinkError("X", "the message alone", "a hint")) == "the message alone"


def test_spark_that_does_not_start_tells_the_last_line_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("something\nJAVA_HOME is not set\n\tat org.apache.spark.Main.main\n\n", encoding="utf-8")
    assert start_failure(RuntimeError("gateway"), log).message == "Spark did not start: JAVA_HOME is not set"
    assert "RuntimeError: gateway" in start_failure(RuntimeError("gateway"), None).message
    in_its_place = IsADirectoryError(21, "Is a directory", str(tmp_path))
    assert f"Is a directory: '{tmp_path}'" in start_failure(in_its_place, tmp_path).message
    assert start_failure(SparkError("SPARK_START", "Java ended"), log).message.endswith("JAVA_HOME is not set")


def test_a_call_without_an_answer_means_that_spark_is_gone() -> None:
    assert spark_failure(Py4JError("An error occurred while calling o7.isActive")).code == "SPARK_GONE"
    java = Py4JError("An error occurred while calling o7.isActive. Trace:\njava.lang.IllegalStateException: no")
    assert spark_failure(java).code == "SPARK_FAILED"


def test_a_refusal_of_our_own_is_not_a_failure_of_spark(tmp_path: Path) -> None:
    refused = ConfigError("SPARK_SUBMIT", "comes too late", "give it to spark-submit")
    assert start_failure(refused, tmp_path / "spark.log") is refused


def test_a_sink_that_fails_twice_gets_the_batch_once(caplog: pytest.LogCaptureFixture) -> None:
    sink = Failing(times=2)
    with caplog.at_level(logging.WARNING):
        RetryingSink(sink, threading.Event(), pauses=(0.01, 0.01, 0.01)).write(batch())
    assert sink.taken == [4]
    assert [record.getMessage().split(" failed")[0] for record in caplog.records] == [
        "sink `results`, batch 4: attempt 1 of 4",
        "sink `results`, batch 4: attempt 2 of 4",
    ]


def test_a_sink_that_goes_on_failing_is_named() -> None:
    sink = Failing(times=100)
    with pytest.raises(SinkError) as failed:
        RetryingSink(sink, threading.Event(), pauses=(0.01, 0.01)).write(batch())
    assert failed.value.code == "SINK_FAILED"
    assert "sink `results` could not take batch 4, tried 3 times: OSError: the disk is full" in failed.value.message
    assert sink.left == 97


def test_a_sink_is_not_tried_again_while_the_query_stops(caplog: pytest.LogCaptureFixture) -> None:
    stopping, sink = threading.Event(), Failing(times=1)
    stopping.set()
    with pytest.raises(OSError, match="full"):
        RetryingSink(sink, stopping, pauses=(60,)).write(batch())
    assert caplog.records == []


class Raising(Sink):
    def __init__(self, error: Exception) -> None:
        super().__init__("results")
        self.error, self.tries = error, 0

    def write(self, batch: SinkBatch) -> None:
        self.tries += 1
        raise SinkError("SINK_WRITE", f"sink `results` failed: {gist(self.error)}") from self.error


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (
            RuntimeError("An error occurred while calling o1.save.\n: java.lang.ClassNotFoundException: a.Missing"),
            1,
        ),
        (AnalysisException("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: nope"), 1),
        (RuntimeError("org.apache.kafka.common.errors.SaslAuthenticationException: wrong"), 1),
        (RuntimeError("org.apache.kafka.common.errors.TopicAuthorizationException: not you"), 1),
        (OSError('FATAL:  password authentication failed for user "me"'), 1),
        (OSError('connection to server at "db" failed: FATAL:  role "me" does not exist'), 1),
        (RuntimeError("The request included a message that is too large: RecordTooLargeException"), 1),
        (TypeError("save() takes 1 positional argument but 2 were given"), 1),
        (ConnectionRefusedError("connection refused"), 3),
        (RuntimeError("org.apache.kafka.common.errors.TimeoutException: no broker"), 3),
        (OSError("No space left on device"), 3),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_what_cannot_pass_by_waiting_is_tried_once(error: Exception, tries: int) -> None:
    sink = Raising(error)
    with pytest.raises(SinkError) as failed:
        RetryingSink(sink, threading.Event(), pauses=(0.001, 0.001)).write(batch())
    assert (failed.value.code, sink.tries, "nothing is lost" in str(failed.value.hint)) == (
        "SINK_FAILED", tries, tries > 1,
    )  # fmt: skip
