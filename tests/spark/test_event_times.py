"""Where rows get their event time from on real Spark: every source is counted, a user's own types are read."""

from __future__ import annotations

import json
import logging.handlers
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import finish
from windowpane.checkpoint.ledger import Entry
from windowpane.connectors.sinks import MemorySink
from windowpane.errors import PlanError
from windowpane.plan.eventtime.types import EventtimeParser, EventtimeTypes, builtin_types
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

SCHEMA = "ts STRING, k STRING, received_at STRING"
LINES = [
    {"ts": "20240101000001", "k": "a"},
    {"ts": "20240101000002", "k": "a"},
    {"ts": "nonsense", "k": "a", "received_at": "2024-01-01T00:00:03Z"},
    {"ts": None, "k": "b"},
]
QUERY = "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), k"
COMPACT = "to_timestamp({column}, 'yyyyMMddHHmmss')"
"""Fails on nonsense under ANSI: what it cannot compute is unreadable, and the query goes on."""


def compact_times(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    times = pc.strptime(values, format="%Y%m%d%H%M%S", unit="us", error_is_null=True).cast(pa.int64())
    return times, pc.and_(values.is_valid(), times.is_null())


def own_types() -> EventtimeTypes:
    types = builtin_types()
    types.register("by_arrow", EventtimeParser(arrow=compact_times))
    types.register("by_sql", COMPACT)
    types.register("no_number", "concat({column}, 'x')")
    return types


def pipeline(folder: Path, eventtime: dict[str, Any], query: str = QUERY, schema: str = SCHEMA) -> Pipeline:
    (folder / "in").mkdir(parents=True)
    text = "\n".join(json.dumps(line) for line in LINES) + "\n{broken\n"
    (folder / "in" / "1.json").write_text(text, encoding="utf-8")
    stream = {"format": "json", "path": "in", "schema": schema, "eventtime": eventtime}
    settings = {
        "streams": {"s": stream},
        "options": {
            "eventtime": {"enabled": True, "types": {"in_toml": COMPACT}},
            "trigger": "available_now", "shards": 2, "max_future_skew": "off",
        },
        "transforms": {folder.name.rstrip("0"): {"sql": query, "sink": "out"}},
        "sinks": {"out": {"format": "memory"}},
    }  # fmt: skip
    return Pipeline.from_dict(settings, folder, sinks={"out": MemorySink("out")}, types=own_types())


ON = "SELECT k, count(*) AS n FROM s GROUP BY k WINDOW TUMBLING (SIZE 10 SECONDS) ON received_at"
RUNS: dict[str, tuple[Any, ...]] = {
    "by_arrow": ({"column": "ts", "type": "by_arrow"},),
    "in_toml": ({"column": "ts", "type": "in_toml"},),
    "on": ({"column": "ts", "type": "by_sql"}, ON),
}


@dataclass
class Ran:
    entry: Entry
    warnings: list[str]


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """All at once: most of a small micro-batch is waiting."""
    heard = logging.handlers.BufferingHandler(1000)
    logging.getLogger("windowpane").addHandler(heard)
    made = {name: pipeline(tmp_path_factory.mktemp(name), *given) for name, given in RUNS.items()}
    running = {name: each.start(spark) for name, each in made.items()}
    found = {}
    for name, each in running.items():
        finish(each, drain=False)
        entry = made[name].checkpoint(made[name].plans[0]).ledger.read(0)
        assert entry is not None
        said = [record.getMessage() for record in heard.buffer if f"`{name}`" in record.getMessage()]
        found[name] = Ran(entry, said)
    logging.getLogger("windowpane").removeHandler(heard)
    return found


@pytest.mark.parametrize("name", ["by_arrow", "in_toml"])
def test_types_of_ones_own_fall_back_row_by_row_and_every_source_is_counted(ran: dict[str, Ran], name: str) -> None:
    entry = ran[name].entry
    assert entry.accounting["aggregated"] == 4
    assert entry.times == {"stream_column": 2, "metadata": 1, "processing_time": 1}
    assert entry.sums["times"] == entry.times
    assert entry.accounting["error"] == 1
    assert [text.split(" have ")[0] for text in ran[name].warnings] == [f"transform `{name}`: 1 of 5 rows in batch 0"]


def test_on_is_authoritative(ran: dict[str, Ran]) -> None:
    assert ran["on"].entry.accounting["aggregated"] == 1
    assert ran["on"].entry.times == {"sql_override": 1}
    assert ran["on"].entry.accounting["error"] == 4


def test_an_expression_that_yields_no_time_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    made = pipeline(tmp_path, {"column": "ts", "type": "no_number"})
    with pytest.raises(PlanError) as refused:
        made.start(spark)
    assert refused.value.code == "BAD_EVENTTIME_TYPE"
    assert "yields STRING" in refused.value.message
