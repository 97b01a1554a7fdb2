"""Flink's side: its settings, and the tables that its queries read and write, as Flink SQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.nexmark.generator import COLUMNS, Stream
from bench.nexmark.queries import Query

SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.managed.size": "1 gb",
    "state.backend.type": "hashmap",
    "execution.checkpointing.interval": "10 s",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "table.local-time-zone": "UTC",
}
"""What Flink's tuning guide and its own Nexmark setup advise; docs/benchmarks.md says why each."""

_TYPES = {"name": "STRING", "window_start": "TIMESTAMP(3)", "window_end": "TIMESTAMP(3)"}


def sources(query: Query, folders: Mapping[Stream, Path], file_format: str, more: str = "") -> list[str]:
    """A table for each stream, in place of one of that name, with a watermark two seconds behind."""
    statements = []
    for stream in query.streams:
        columns = COLUMNS[stream].replace("TIMESTAMP", "TIMESTAMP(3)")
        options = f"'connector' = 'filesystem', 'path' = '{folders[stream]}', 'format' = '{file_format}'{more}"
        options += (
            ", 'parquet.utc-timezone' = 'true'"
            if file_format == "parquet"
            else ", 'json.timestamp-format.standard' = 'ISO-8601'"
        )
        statements += [
            f"DROP TABLE IF EXISTS {stream}",
            f"CREATE TABLE {stream} ({columns}, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ({options})",
        ]
    return statements


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
