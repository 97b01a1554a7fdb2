"""Pipelines of the benchmarks, with the keys of pipeline.toml: files with a time column, one query, one sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def file_stream(path: str, schema: str, *, files: int | None = None, form: str = "parquet") -> dict[str, Any]:
    """A stream of files, no more than `files` of them in a micro-batch."""
    limit = {} if files is None else {"options": {"maxFilesPerTrigger": files}}
    return {"format": form, "path": path, "schema": schema, "eventtime": {"column": "ts", "type": "timestamp"}} | limit


def untimed(stream: Mapping[str, Any]) -> dict[str, Any]:
    """The same without event time."""
    return {key: value for key, value in stream.items() if key != "eventtime"}


def pipeline(sql: str, streams: Mapping[str, dict[str, Any]], *, lag: str | None, **options: Any) -> dict[str, Any]:
    """One transform over streams, with the watermark `lag` behind, or by processing time; its results go to `out`."""
    timing = {"enabled": False} if lag is None else {"enabled": True, "late_tolerance": lag}
    return {
        "streams": {name: untimed(stream) if lag is None else stream for name, stream in streams.items()},
        "options": {"eventtime": timing, **options},
        "transforms": {"bench": {"sql": sql, "sink": "out"}},
        "sinks": {"out": {"format": "memory"}},
    }
