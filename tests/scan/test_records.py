"""Kafka records to the columns of the input projection, as a worker does it, without Spark and without a broker."""

from __future__ import annotations

import json
from functools import partial

import pyarrow as pa
import pytest

from windowpane.config import parse_stream
from windowpane.connectors.kafka import client_defaults
from windowpane.core import columns as c
from windowpane.core import rows
from windowpane.core.columns import SOURCE_TIME
from windowpane.core.frames import SideRows
from windowpane.core.side import Key, side_batch
from windowpane.core.side_records import to_records
from windowpane.evaluation.event_times import EventTimes, TimeLookup
from windowpane.evaluation.iso8601 import parse_iso8601
from windowpane.evaluation.projection import Projection
from windowpane.evaluation.unix_times import parse_timestamps, parse_unix
from windowpane.scan.json.codec import JsonCodec
from windowpane.scan.message_columns import PARTITION, TOPIC, VALUE
from windowpane.scan.messages import MessageReader
from windowpane.scan.original_events import SourceRows, with_events
from windowpane.scan.scan import Scan, Scanned

CLOCK_US = 1_700_000_000_000_000
STAMP = pa.timestamp("us", "UTC")
CONFIG, METADATA, PROCESSING = map(c.TIME_SOURCES.index, ("config_field", "metadata", "processing_time"))
CHAIN = EventTimes(
    (
        TimeLookup("ms", partial(parse_unix, unit_us=1000), code=CONFIG),
        TimeLookup("received_at", parse_iso8601, code=METADATA),
        TimeLookup(SOURCE_TIME, parse_timestamps, code=METADATA),
    ),
    names_source=True,
    clock=True,
)
COLUMNS = (("ms", pa.int64()), ("received_at", pa.string()), ("v", pa.int64()), ("f", pa.float32()))
GOOD = b'{"v": 1, "ms": 5}'


def handed(*values: bytes | None, stamps: list[int | None] | None = None, **more: pa.Array) -> pa.RecordBatch:
    columns = {VALUE: pa.array(values, pa.binary()), PARTITION: pa.array([0] * len(values), pa.int32())}
    columns[SOURCE_TIME] = pa.array(stamps or [7_000_000] * len(values), STAMP)
    return pa.RecordBatch.from_pydict(columns | more)


def scan(*, topics: bool = False, original: bool = False, beside: tuple[tuple[str, pa.DataType], ...] = ()) -> Scan:
    reader = MessageReader(
        stream="t",
        codec=JsonCodec(),
        columns=COLUMNS,
        beside=(*beside, (SOURCE_TIME, STAMP)),
        several_topics=topics,
        max_record_bytes=1 << 24,
    )
    return Scan(reader, (Projection(CHAIN, (("_v", "v"),), (), None),), original)


def scanned(of: Scan, *batches: pa.RecordBatch) -> Scanned:
    (found,) = of.read(iter(batches), CLOCK_US)
    return found


def test_a_time_comes_from_the_first_place_that_has_one() -> None:
    values = [
        GOOD, b'{"received_at": "1970-01-01T00:00:01Z"}', b'{"ms": null, "received_at": "soon"}', b"{}",
        b'{"ms": 9223372036854775807}', b"bad", b'{"ms": 6, "v": "bad"}', b"bad",
    ]  # fmt: skip
    stamps: list[int | None] = [2_000_000, 2_000_000, 2_000_000, None, 3_000_000, 4_000_000, 5_000_000, None]
    rows = scanned(scan(), handed(*values, stamps=stamps)).rows
    times = [5000, 1_000_000, 2_000_000, CLOCK_US, 3_000_000, 4_000_000, 6000, None]
    assert rows.column(c.EVENT_TIME).to_pylist() == times
    found = [CONFIG, METADATA, METADATA, PROCESSING, METADATA, METADATA, CONFIG, None]
    assert rows.column(c.TIME_SOURCE).to_pylist() == found
    assert [reason is not None for reason in rows.column(c.ERROR).to_pylist()] == [False] * 5 + [True] * 3


def test_what_cannot_be_read_is_an_error_row_with_its_text() -> None:
    rows = scanned(scan(), handed(None, GOOD, b"\xff", b"")).rows
    assert rows.column(c.ERROR).to_pylist() == ["decode_error", None, "decode_error", "decode_error"]
    assert rows.column(c.DETAIL).to_pylist() == ["", None, "\ufffd", ""]


@pytest.mark.parametrize(
    ("topics", "shards"), [(False, ["t/3", "t/1", "t/3", "t/1"]), (True, ["t/a-3", "t/b-1", "t/b-3", "t/a-1"])]
)
def test_partitions_are_shards_with_their_topic_where_there_are_several(topics: bool, shards: list[str]) -> None:
    place = {PARTITION: pa.array([3, 1], pa.int32())}
    batches = [handed(GOOD, GOOD, **place, **{TOPIC: pa.array(names)}) for names in (["a", "b"], ["b", "a"])]
    assert scanned(scan(topics=topics), *batches).rows.column(c.SOURCE_PARTITION).to_pylist() == shards


def test_the_schema_is_that_of_the_rows() -> None:
    of = scan(beside=(("offset", pa.int64()),))
    rows = scanned(of, handed(GOOD, offset=pa.array([9], pa.int64()))).rows
    assert rows.schema == of.schema


def test_original_events_have_the_whole_record_or_where_it_stands() -> None:
    beside = (("key", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()))
    more = {
        "key": pa.array(["k", None]), "topic": pa.array(["a", "a"]), "partition": pa.array([0, 0], pa.int32()),
        "offset": pa.array([8, 9], pa.int64()),
    }  # fmt: skip
    found = scanned(scan(original=True, beside=beside), handed(b'{"v": 1, "f": 0.1}', b"bad", **more))
    assert found.source is not None
    dlq = SideRows(side_batch("error", "any", found.rows, clock_us=0, watermark_us=None))
    completed = with_events(dlq, found.source)
    assert isinstance(completed, SideRows)
    where = {"topic": "a", "partition": 0}
    assert [json.loads(text) for text in completed.batch.column("original_event").to_pylist()] == [
        {"ms": None, "received_at": None, "v": 1, "f": 0.1, "key": "k", **where, "offset": 8},
        {c.CORRUPT: "bad", **where, "offset": 9},
    ]


def test_events_and_keys_of_years_that_python_does_not_have_are_written() -> None:
    """As Spark writes them to JSON. Such a row used to stop the query."""
    days = pa.array([2_932_897, -719_529, -719_162, None], pa.int32()).cast(pa.date32())
    instants = pa.array([2**63 - 1, -(2**63), -62_135_596_800_000_000, 0]).cast(pa.timestamp("us", "UTC"))
    lists = pa.array([[0], None, [2_932_897], []], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    numbers = pa.array(range(4), pa.int64())
    rows = pa.record_batch({"d": days, "t": instants, c.EVENT: numbers, "k": days, "l": lists})
    keys = [Key("k", "day"), Key("l", "days")]
    dlq = SideRows(side_batch("error", "any", rows, clock_us=0, watermark_us=None, keys=keys))
    completed = with_events(dlq, SourceRows(rows.select(["d", "t"])))
    assert isinstance(completed, SideRows)
    records = to_records(completed.batch, "p", "q")
    assert [record["original_event"] for record in records] == [
        {"d": "+10000-01-01", "t": "+294247-01-10T04:00:54.775807Z"},
        {"d": "-0001-12-31", "t": "-290308-12-21T19:59:05.224192Z"},
        {"d": "0001-01-01", "t": "0001-01-01T00:00:00.000000Z"},
        {"d": None, "t": "1970-01-01T00:00:00.000000Z"},
    ]
    assert [record["group_key"] for record in records] == [
        {"day": "+10000-01-01", "days": ["1970-01-01"]}, {"day": "-0001-12-31", "days": None},
        {"day": "0001-01-01", "days": ["+10000-01-01"]}, {"day": None, "days": []},
    ]  # fmt: skip


def test_the_users_settings_of_the_client_hold() -> None:
    options = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", "kafka.Max.Poll.Records": 7}
    stream = parse_stream("t", {"format": "kafka", "options": options})
    assert list(client_defaults(stream)) == ["kafka.max.partition.fetch.bytes"]


def test_records_are_gathered_to_large_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "CHUNK_ROWS", 4)
    batches = [handed(*[GOOD] * count) for count in (3, 0, 2, 1)]
    assert [part.rows.num_rows for part in scan().read(iter(batches), CLOCK_US)] == [5, 1]
    assert not list(scan().read(iter([handed()]), CLOCK_US))
