"""A pipeline that `windowpane init --from` has made runs as it is, and gives what the preview of all its rows gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from windowpane.config import load_pipeline
from windowpane.connectors.sinks import MemorySink
from windowpane.preview.new_pipeline import write_pipeline
from windowpane.preview.running import preview
from windowpane.runtime import Pipeline
from windowpane.runtime.golden_spark import finish
from windowpane.testing.outputs import as_python

ROWS = [
    {"id": at, "country": ("de", "fr", "it")[at % 3], "amount": at + 0.5, "event_time": 1_767_225_600_000 + at * 500}
    for at in range(300)
]


def values(rows: list[dict[str, Any]] | list[dict[str, object]]) -> list[tuple[str, ...]]:
    return sorted(tuple(str(value).partition("+00:00")[0] for value in row.values()) for row in rows)


@pytest.mark.parametrize("name", ["one.json", "orders"])
def test_a_made_pipeline_runs(spark: SparkSession, tmp_path: Path, name: str) -> None:
    source = tmp_path / name
    lines = "".join(json.dumps(row) + "\n" for row in ROWS) + '{"id": 1\n'
    if name == "orders":
        (source / "dt=2026-01-01").mkdir(parents=True)
        header = "id;country;amount;event_time\n"
        text = header + "".join(";".join(map(str, row.values())) + "\n" for row in ROWS) + "1;de\n"
        (source / "dt=2026-01-01" / "a.csv").write_text(text, encoding="utf-8")
    else:
        source.write_text(lines, encoding="utf-8")
    path, made = write_pipeline(str(source), tmp_path / "job", 1000)
    (expected,) = preview(load_pipeline(path), None, 1000)
    results, dlq = MemorySink("results"), MemorySink("dlq")
    job = Pipeline.from_toml(path, sinks={"results": results, "dlq": dlq})
    finish(job.start(spark), drain=True)
    tables = (*expected.results, *expected.open_results)
    assert values([row.asDict() for row in results.rows]) == values([row for each in tables for row in as_python(each)])
    assert len(dlq.rows) == expected.accounting.error == 1
    assert made.eventtime is not None
