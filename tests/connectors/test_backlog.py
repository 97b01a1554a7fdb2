"""Whether a batch's limit left something behind, from the checkpoint that Spark keeps; and which limits may move."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from windowpane.checkpoint.offset_log import batch_files
from windowpane.config import Stream, parse_stream
from windowpane.connectors.backlog import Backlog, FileShare, left_behind
from windowpane.connectors.limits import FILE_BYTES, KAFKA_RECORDS, Limits, is_movable, limit_text

KAFKA = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}


class Checkpoint:
    """Spark's files, as it writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plan(self, batch_id: int, *offsets: Any, at_ms: int = 1000) -> None:
        lines = ["v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": at_ms + batch_id, "conf": {}})]
        path = self.folder / "offsets" / str(batch_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, *(json.dumps(each) for each in offsets)]), encoding="utf-8")

    def log(self, source: int, name: str, files: Mapping[str, int], *, modified_ms: int = 500) -> None:
        path = self.folder / "sources" / str(source) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = [{"path": file, "timestamp": modified_ms, "batchId": batch} for file, batch in files.items()]
        path.write_text("\n".join(["v1", *map(json.dumps, entries)]), encoding="utf-8")


def made(folder: Path, name: str, size: int) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path.as_uri()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "spark")


def backlog(tmp_path: Path, max_rows: int | None = None, **streams: Mapping[str, Any]) -> Backlog:
    parsed = {name: parse_stream(name, dict(each)) for name, each in streams.items()}
    return Backlog(tmp_path / "spark", parsed, tmp_path, tmp_path / "reinject", max_rows)


def size_of(found: Backlog, batch_id: int, limits: Limits) -> float | None:
    return left_behind(found.shares(batch_id), found.shares(batch_id + 1), limits)


JSON = {"format": "json", "path": "in data"}


def two_batches(tmp_path: Path, checkpoint: Checkpoint, first: list[int], second: list[int]) -> None:
    names = {
        batch: [f"in data/{batch}-{number}.json" for number in range(len(sizes))]
        for batch, sizes in ((0, first), (1, second))
    }
    for batch, sizes in ((0, first), (1, second)):
        files = {made(tmp_path, name, size): batch for name, size in zip(names[batch], sizes, strict=True)}
        checkpoint.log(0, str(batch), files)
        checkpoint.plan(batch, {"logOffset": batch})


@pytest.mark.parametrize(
    ("first", "second", "full"),
    [
        ([40, 40], [40, 40], True),  # a third one would not have fitted
        ([40, 40], [10, 70], True),  # nor the second of these
        ([40, 40], [20], False),  # would have, so it came later
        ([10], [10], False),
        ([60], [60], True),
        ([300], [60, 60], False),  # larger than any limit; what is left is not like it
        ([300], [300], True),
        ([40, 40], [30], False),  # nothing like a backlog any more
    ],
)  # fmt: skip
def test_files_that_did_not_fit(
    tmp_path: Path, checkpoint: Checkpoint, first: list[int], second: list[int], *, full: bool
) -> None:
    two_batches(tmp_path, checkpoint, first, second)
    wanted = sum(first) / FILE_BYTES if full else None
    assert size_of(backlog(tmp_path, t=JSON), 0, Limits(bytes=100)) == wanted


def test_streams_with_a_limit_of_their_own_and_rows_that_are_read_again_do_not_count(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    two_batches(tmp_path, checkpoint, [90], [90])
    for path in ("in data", "in data/*.json", str(tmp_path / "in data"), f"file://{tmp_path}/in data"):
        fixed = {"format": "json", "path": path, "options": {"MAXFILESPERTRIGGER": 1}}
        assert size_of(backlog(tmp_path, t=fixed, u={"format": "csv", "path": "in"}), 0, Limits(bytes=100)) is None
    assert size_of(
        backlog(tmp_path, t={**JSON, "path": "in"} | {"options": {"maxBytesPerTrigger": 1}}, u=JSON),
        0,
        Limits(bytes=100),
    )
    again = {made(tmp_path, f"reinject/t/{batch}.json", 90): batch for batch in range(2)}
    for number, (path, batch) in enumerate(again.items()):
        checkpoint.log(0, str(number), {path: batch})
    assert size_of(backlog(tmp_path, t=JSON), 0, Limits(bytes=100)) is None


def test_files_elsewhere_count_by_when_they_were_there(tmp_path: Path, checkpoint: Checkpoint) -> None:
    for batch, modified in ((0, 500), (1, 900), (2, 1_500)):
        checkpoint.log(0, str(batch), {f"s3a://bucket/in/{batch}.json": batch}, modified_ms=modified)
        checkpoint.plan(batch, {"logOffset": batch}, at_ms=1000)
    found = backlog(tmp_path, t={"format": "json", "path": "s3a://bucket/in"})
    assert size_of(found, 0, Limits(bytes=FILE_BYTES // 2)) == 0.5
    assert size_of(found, 1, Limits(bytes=FILE_BYTES // 2)) is None, "it has come since"


def test_files_that_are_gone_are_no_error(tmp_path: Path, checkpoint: Checkpoint) -> None:
    two_batches(tmp_path, checkpoint, [90], [90])
    found = backlog(tmp_path, t=JSON)
    (tmp_path / "in data" / "0-0.json").unlink()
    [share] = found.shares(0).values()
    assert isinstance(share, FileShare)
    assert share.bytes is None


def test_the_log_of_files_is_read_after_it_was_made_compact(tmp_path: Path, checkpoint: Checkpoint) -> None:
    files = {f"file:///in/{batch}.json": batch for batch in range(10)}
    checkpoint.log(0, "9.compact", files)
    for batch in (4, 5, 8, 9):
        checkpoint.plan(batch, {"logOffset": batch}, 17)
    assert batch_files(checkpoint.folder, 9) == ["file:///in/9.json"]
    assert batch_files(checkpoint.folder, 5) == ["file:///in/5.json"], "its own file is gone"


def test_records_of_kafka(tmp_path: Path, checkpoint: Checkpoint) -> None:
    for batch, (first, second) in enumerate([(0, 10), (50, 59), (100, 110), (120, 119), (140, 125)]):
        checkpoint.plan(batch, 7, {"t": {"0": first, "1": second} | ({"2": 10**9} if batch == 2 else {})})
    found = backlog(tmp_path, t={"format": "kafka", "options": KAFKA})
    assert found.shares(0) == {}
    assert size_of(found, 1, Limits(records=100)) == 99 / KAFKA_RECORDS
    assert size_of(found, 2, Limits(records=100)) is None, "the last ones"
    assert size_of(found, 3, Limits(records=10)) == 29 / KAFKA_RECORDS
    assert backlog(tmp_path, 1000, t={"format": "kafka", "options": KAFKA}).shares(1) == {}
    fixed = {"format": "kafka", "options": KAFKA | {"maxOffsetsPerTrigger": 9}}
    other = {"format": "kafka", "options": KAFKA | {"subscribe": "u"}}
    assert backlog(tmp_path, t=fixed, u=other).shares(1) == {}


def stream(**settings: Any) -> Stream:
    return parse_stream("t", settings)


def test_which_limits_move() -> None:
    kafka = stream(format="kafka", options=KAFKA)
    assert is_movable(stream(format="parquet", path="x"), max_rows=7)
    assert is_movable(kafka, max_rows=None)
    assert not is_movable(kafka, max_rows=7)
    assert not is_movable(stream(format="kafka", options=KAFKA | {"minOffsetsPerTrigger": 5}), max_rows=None)
    assert not is_movable(stream(format="csv", path="x", options={"maxbytespertrigger": "1g"}), max_rows=None)
    assert not is_movable(stream(format="rate"), max_rows=None)


def test_limits_as_options() -> None:
    limits = Limits.scaled(0.5, None)
    assert limits.options(stream(format="json", path="x")) == {"maxBytesPerTrigger": str(FILE_BYTES // 2)}
    assert limits.options(stream(format="kafka", options={"a": 1})) == {"maxOffsetsPerTrigger": "500000", "a": "1"}
    assert Limits.scaled(4, 7).options(stream(format="kafka")) == {"maxOffsetsPerTrigger": "7"}
    assert Limits().options(stream(format="kafka")) == {}
    assert limits.options(stream(format="rate", options={"rowsPerSecond": 5})) == {"rowsPerSecond": "5"}
    own = stream(format="json", path="x", options={"maxFilesPerTrigger": 3})
    assert limits.options(own) == {"maxFilesPerTrigger": "3"}


def test_limits_as_text() -> None:
    assert limit_text({"bytes": FILE_BYTES}) == "256 MB"
    assert limit_text({"bytes": 5 * 2**20, "records": 1_000_000}) == "5,120 KB and 1,000,000 records"
