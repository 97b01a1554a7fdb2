"""Flink's side: its settings, and the tables that its queries read and write, as Flink SQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.nexmark.datasets import Dataset
from bench.nexmark.generator import COLUMNS, FLUSH_KEY, IN_TOPIC, TABLE_COLUMNS, Stream
from bench.nexmark.query import DECIMALS, TEXTS, TIMES, Query
from bench.nexmark.topics import CONSUMER, PARTITIONS, Topic

SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.managed.size": "1 gb",
    "state.backend.type": "hashmap",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.storage": "filesystem",
    "restart-strategy.type": "disable",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "table.local-time-zone": "UTC",
}
"""What Flink's tuning guide and its own Nexmark setup advise; docs/benchmarks.md says why each."""

_TYPES = (
    dict.fromkeys(TEXTS, "STRING") | dict.fromkeys(TIMES, "TIMESTAMP(3)") | dict.fromkeys(DECIMALS, "DECIMAL(23, 3)")
)


def sources(query: Query, data: Dataset) -> list[str]:
    """A table for each stream, in place of one of that name, with a watermark two seconds behind."""
    statements = []
    for stream in query.streams:
        columns = _columns(data, stream)
        options = _given(_topic(data.topic, data.rows) if data.topic else _files(data, stream))
        statements += [
            f"DROP TABLE IF EXISTS {stream}",
            f"CREATE TABLE {stream} ({columns}, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ({options})",
        ]
    for table, folder in data.tables.items():
        options = _given({"connector": "filesystem", "path": folder, "format": "parquet"})
        statements += [
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} ({TABLE_COLUMNS[table]}) WITH ({options})",
        ]
    return statements


def _columns(data: Dataset, stream: Stream) -> str:
    """Of JSON in a topic, those that the query uses. Of Avro all, as they were written, and none of them NULL."""
    if data.topic is not None and data.topic.value_format == "avro":
        return COLUMNS[stream].replace("TIMESTAMP", "TIMESTAMP(3)").replace(",", " NOT NULL,") + " NOT NULL"
    return (IN_TOPIC if data.topic else COLUMNS[stream]).replace("TIMESTAMP", "TIMESTAMP(3)")


def _given(options: Mapping[str, object]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def _files(data: Dataset, stream: Stream) -> dict[str, str]:
    parquet = data.format == "parquet"
    times = {"parquet.utc-timezone": "true"} if parquet else {"json.timestamp-format.standard": "ISO-8601"}
    return {"connector": "filesystem", "path": str(data.reader_folders[stream]), "format": data.format, **times}


def _topic(topic: Topic, rows: int) -> dict[str, str]:
    """The first `rows` of the topic and, where that is all of them, the message in each partition that ends it."""
    ends = ";".join(f"partition:{number},offset:{rows // PARTITIONS}" for number in range(PARTITIONS))
    bounds = {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": ends}
    if rows == topic.rows:
        bounds = {"scan.bounded.mode": "latest-offset"}
    return {
        "connector": "kafka", "topic": topic.name, "properties.bootstrap.servers": topic.servers,
        "properties.group.id": "bench", "scan.startup.mode": "earliest-offset", **bounds,
        **{f"properties.{name}": str(value) for name, value in CONSUMER.items()},
        **_VALUES[topic.value_format],
    }  # fmt: skip


_VALUES: dict[str, dict[str, str]] = {
    "json": {"format": "json", "json.timestamp-format.standard": "ISO-8601"},
    "avro": {"format": "avro"},
}


TRICKLE_S = 20


def clocked(*, ends_later: bool) -> list[str]:
    """Bids with the time at which they are read.

    Windows of processing time come out only while a job runs, and one over files ends with them. With `ends_later` a
    row a second goes on to come: long enough for the last of the bids to be read and for its window to end.
    """
    trickle = f" UNION ALL SELECT CAST({FLUSH_KEY} AS BIGINT) FROM trickle" if ends_later else ""
    options = _given({"connector": "datagen", "rows-per-second": 1, "number-of-rows": TRICKLE_S})
    return [
        "DROP TEMPORARY VIEW IF EXISTS clocked",
        "DROP TABLE IF EXISTS trickle",
        f"CREATE TABLE trickle (any_number BIGINT) WITH ({options})",
        f"CREATE TEMPORARY VIEW clocked AS SELECT bidder, PROCTIME() AS clock FROM (SELECT bidder FROM bids{trickle})",
    ]


def sink(name: str, query: Query, folder: Path | None) -> list[str]:
    """CSV in a folder, or nothing at all."""
    columns = ", ".join(f"{column} {_TYPES.get(column, 'BIGINT')}" for column in query.columns)
    where = (
        f"'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv'" if folder else "'connector' = 'blackhole'"
    )
    return [f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns}) WITH ({where})"]


LATENCY_SETTINGS = SETTINGS | {
    "parallelism.default": "1",
    "table.exec.mini-batch.enabled": "false",
    "execution.checkpointing.mode": "AT_LEAST_ONCE",
    "execution.buffer-timeout.interval": "10 ms",
}
"""Nothing waits for a batch to fill or for a checkpoint to end, and no reader for the next file of the other."""


def latency(folder: Path, window_ms: int, lag_ms: int) -> list[str]:
    """New files are looked for every 50 ms. Counts are added up to one row for each window.

    PyFlink would hand out no more than some hundred rows a second.
    """
    columns = COLUMNS["bids"].replace("TIMESTAMP", "TIMESTAMP(3)")
    end_ms = "EXTRACT(EPOCH FROM window_end) * 1000 + EXTRACT(MILLISECOND FROM window_end)"
    source = (
        f"CREATE TABLE bids ({columns}, WATERMARK FOR ts AS ts - INTERVAL '0.{lag_ms:03}' SECOND) WITH ("
        f"'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true', "
        "'source.monitor-interval' = '50 ms')"
    )
    query = (
        f"SELECT {end_ms} AS end_ms, sum(n) AS n FROM ("
        "SELECT auction, window_start, window_end, count(*) AS n FROM "
        f"TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '0.{window_ms:03}' SECOND)) "
        "GROUP BY auction, window_start, window_end) GROUP BY window_start, window_end"
    )
    return [source, query]
