"""A Delta table in a bucket: a batch that comes again changes nothing, and small files are compacted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from scripts.servers import S3
from tests.connectors.test_table_sinks import batch, contents, emissions
from windowpane.connectors.table_sinks.delta import DeltaSink
from windowpane.errors import SinkError
from windowpane.remote.access import Access

pytestmark = [pytest.mark.slow, pytest.mark.s3]


def sink(s3: S3, name: str, access: Access | None = None, **options: str) -> DeltaSink:
    made = DeltaSink("out", f"s3a://{s3.bucket}/tables/{name}", options)
    made.use(access or Access.of_spark(s3.settings))
    return made


def test_batches_are_written_once(s3: S3) -> None:
    made, again = sink(s3, "once"), sink(s3, "once")
    for each in (made, again):  # the second one is another process
        each.write(batch(0, emissions(("w", "{1}", 1, False, 10), ("w", "{2}", 1, True, 20)), identified=True))
        each.write(batch(1, emissions(("w", "{1}", 2, True, 12), ("v", "{1}", 1, True, 5)), identified=True))
    assert contents(made, "_window_id", "_group_key", "n") == [("v", "{1}", 5), ("w", "{1}", 12), ("w", "{2}", 20)]
    made.write(batch(2, pa.table({"n": [7], "top": ["ü"]})))
    assert contents(made, "n", "top") == [(12, None), (20, None), (5, None), (7, "ü")]


def test_two_writers_at_once_lose_nothing(s3: S3) -> None:
    first, second = sink(s3, "both"), sink(s3, "both")
    first.write(batch(0, pa.table({"n": [0]})))
    stale = second._load()
    first.write(batch(1, pa.table({"n": [1]})))
    second._commit(stale, batch(0, pa.table({"n": [2]}), run="r2"), undo=False, replacing=False)
    assert contents(first, "n") == [(0,), (1,), (2,)]


def test_small_files_are_compacted(s3: S3) -> None:
    made = sink(s3, "small", compact_every="4")
    for number in range(4):
        made.write(batch(number, pa.table({"n": [number]})))
    table = made._load()
    assert table is not None
    assert len(table.file_uris()) == 1
    assert contents(made, "n") == [(0,), (1,), (2,), (3,)]


def test_a_bucket_that_is_not_there(s3: S3) -> None:
    made = DeltaSink("out", "s3a://nowhere/table", {})
    made.use(Access.of_spark(s3.settings))
    with pytest.raises(SinkError, match="could not write to table s3a://nowhere/table"):
        made.write(batch(0, pa.table({"n": [1]})))
