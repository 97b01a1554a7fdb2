"""How a batch job reads a stream: options that say where a streaming query begins and goes on do not apply."""

from __future__ import annotations

from windowpane.config import parse_stream
from windowpane.connectors.history import History
from windowpane.core.time_range import TimeRange

TOPIC = {
    "format": "kafka", "schema": "k STRING",
    "options": {
        "subscribe": "t", "kafka.bootstrap.servers": "b", "startingOffsets": "latest", "maxOffsetsPerTrigger": 5,
        "failOnDataLoss": False,
    },
}  # fmt: skip
KEPT = {"subscribe": "t", "kafka.bootstrap.servers": "b", "failOnDataLoss": "false", "maxRecordsPerPartition": "1000"}


def test_a_topic_is_read_from_an_instant_or_from_its_beginning() -> None:
    stream = parse_stream("s", TOPIC)
    begin = {"startingOffsets": "earliest"}
    assert History().options(stream, 1000) == KEPT | begin
    later = {"startingTimestamp": "1234", "startingOffsetsByTimestampStrategy": "latest"}
    assert History(1_234_567).options(stream, 1000) == KEPT | later
    assert History(-5).options(stream, 1000)["startingTimestamp"] == "0"


def test_files_are_read_without_limits_of_micro_batches() -> None:
    options = {"maxFilesPerTrigger": 1, "pathGlobFilter": "*.json", "latestFirst": True}
    stream = parse_stream("s", {"format": "json", "path": "p", "schema": "k STRING", "options": options})
    assert History().options(stream, 1000) == {"pathGlobFilter": "*.json"}


def test_days_of_a_range() -> None:
    day = 86_400_000_000
    assert History(None, TimeRange(-1, day))._days() == ("1969-12-31", "1970-01-01")
    assert History(None, TimeRange(0, day + 1))._days() == ("1970-01-01", "1970-01-02")
    assert History(None, TimeRange(-(2**60), 2**60))._days() is None
    assert History()._days() is None
