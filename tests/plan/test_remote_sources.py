"""Which addresses workers read themselves: objects of a store if the client is installed, no other remote files."""

from __future__ import annotations

import pytest

from windowpane.config import parse_pipeline
from windowpane.errors import PlanError
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import plan_pipeline


def planned(path: str, scan: str = "auto") -> Plan:
    settings = {
        "streams": {"s": {"format": "parquet", "path": path, "schema": "k BIGINT, ts TIMESTAMP", "scan": scan}},
        "transforms": {"t": {"sql": "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 2), k", "sink": "o"}},
        "sinks": {"o": {"format": "console"}},
    }
    return plan_pipeline(parse_pipeline(settings))[0]


@pytest.mark.parametrize("path", ["in", "file:///data/in", "s3a://b/in", "gs://b/in", "abfss://c@a.dfs.core/in"])
def test_workers_read_files_and_objects(path: str) -> None:
    assert planned(path).scan is not None


def test_spark_reads_what_workers_cannot_open(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned("hdfs://namenode/in").scan is None
    with pytest.raises(PlanError) as refused:
        planned("hdfs://namenode/in", "columnar")
    assert refused.value.code == "SCAN_IMPOSSIBLE"
    assert "workers do not open hdfs:// themselves" in refused.value.message
    monkeypatch.setattr("windowpane.plan.scan_sources.has_obstore", lambda: False)
    assert planned("s3a://b/in").scan is None
    with pytest.raises(PlanError) as missing:
        planned("s3a://b/in", "columnar")
    assert "obstore" in missing.value.message
