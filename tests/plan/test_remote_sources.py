"""Which addresses workers read themselves: objects of a store and files of HDFS if the client is installed."""

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


@pytest.mark.parametrize(
    "path",
    ["in", "file:///data/in", "s3a://b/in", "gs://b/in", "abfss://c@a.dfs.core/in", "hdfs://namenode:8020/in"],
)
def test_workers_read_files_and_objects(path: str) -> None:
    assert planned(path).scan is not None


@pytest.mark.parametrize("path", ["webhdfs://namenode/in", "hdfs:///in"])
def test_spark_reads_what_workers_cannot_open(path: str) -> None:
    assert planned(path).scan is None
    with pytest.raises(PlanError) as refused:
        planned(path, "columnar")
    assert refused.value.code == "SCAN_IMPOSSIBLE"
    assert f"workers do not open {path.partition(':')[0]}:// themselves" in refused.value.message


@pytest.mark.parametrize(
    ("path", "package"), [("s3a://b/in", "has_obstore"), ("hdfs://namenode/in", "has_hdfs_native")]
)
def test_spark_reads_where_the_client_is_not_installed(
    path: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"windowpane.plan.scan_sources.{package}", lambda: False)
    assert planned(path).scan is None
    with pytest.raises(PlanError) as missing:
        planned(path, "columnar")
    assert package.removeprefix("has_").replace("_", "-") in missing.value.message
