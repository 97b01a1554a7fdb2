"""Delta and Iceberg tables of the sinks, read by DuckDB: commits, corrections, new columns, partitions."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.connectors.test_table_sinks import batch, emissions
from windowpane.connectors.table_sinks.delta import DeltaSink
from windowpane.connectors.table_sinks.iceberg import IcebergSink
from windowpane.connectors.table_sinks.table_sink import TableSink

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
Read = Callable[..., list[tuple[object, ...]]]


@pytest.fixture(scope="session")
def duckdb_python() -> str:
    """An interpreter with DuckDB's readers. Skipped where they cannot be had, and an error where CI is set."""
    found = subprocess.run([ROOT / "scripts" / "duckdb-reader"], capture_output=True, text=True, check=False)
    if found.returncode and not os.environ.get("CI"):
        pytest.skip(found.stderr)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path, duckdb_python: str) -> tuple[Callable[..., Any], Read]:
    """Makes a sink, and reads its table with DuckDB."""

    def make(mode: str | None = None, **options: str) -> TableSink[Any]:
        if request.param == "delta":
            return DeltaSink("out", str(tmp_path / "table"), options, mode)
        catalog = {
            "table": "shop.hot", "catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
            "catalog.warehouse": f"file://{tmp_path}/warehouse",
        }  # fmt: skip
        return IcebergSink("out", catalog | options, mode)

    def read(*columns: str) -> list[tuple[object, ...]]:
        place = str(tmp_path / "table")
        if request.param == "iceberg":
            loaded = make()._load()
            assert loaded is not None
            place = loaded.metadata_location.removeprefix("file://")
        script = [duckdb_python, str(Path(__file__).parent / "duckdb_reader.py"), request.param, place, *columns]
        found = subprocess.run(script, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
        assert found.returncode == 0, found.stderr
        return sorted((tuple(row) for row in json.loads(found.stdout)), key=str)

    return make, read


def test_what_a_stream_writes_is_what_duckdb_reads(table: tuple[Callable[..., Any], Read]) -> None:
    make, read = table
    sink = make()
    sink.write(batch(0, emissions(("w", "{1}", 1, False, 10), ("w", "{2}", 1, True, 20)), identified=True))
    sink.write(batch(1, emissions(("w", "{1}", 2, True, 12), ("v", "{1}", 1, True, 5)), identified=True))
    sink.write(batch(1, emissions(("w", "{1}", 2, True, 99)), identified=True))
    assert read("_window_id", "_group_key", "n") == [("v", "{1}", 5), ("w", "{1}", 12), ("w", "{2}", 20)]
    gained = emissions(("u", "{1}", 1, True, 7)).append_column("top", pa.array(["ü"]))
    sink.write(batch(2, gained, identified=True))
    assert read("n", "top") == [(12, None), (20, None), (5, None), (7, "ü")]


def test_partitions(table: tuple[Callable[..., Any], Read]) -> None:
    make, read = table
    rows = pa.table({"k": ["ü 1", None, "a=b/c"], "n": [1, 2, 3]})
    make(partition_by="k").write(batch(0, rows))
    make(partition_by="k").write(batch(1, rows))
    assert read("k", "n") == sorted([("ü 1", 1), (None, 2), ("a=b/c", 3)] * 2, key=str)
