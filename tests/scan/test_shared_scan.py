"""Several transforms over one reader: rows are read once, and each transform gets those that it gets alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windowpane.config import parse_pipeline
from windowpane.evaluation import duckdb_tables
from windowpane.plan.pipeline import plan_pipeline
from windowpane.plan.scan import StreamScan
from windowpane.scan.scan import Part, Reader, Scanned
from windowpane.scan.shared_scan import SharedScan
from windowpane.spark.job_inputs import merged_scan, record_codec, worker_scan

CLOCK_US = 1_700_000_000_000_000
LINES = [
    '{"ts": 1000, "k": "a", "v": 1, "w": 2}',
    '{"ts": null, "k": "ä", "v": 9223372036854775807, "w": null}',
    "not json",
    '{"ts": -5000, "k": null, "v": -3, "w": 0}',
    '{"ts": 2000, "k": "b", "v": 5, "w": "no number"}',
    '{"ts": 3000, "k": "b", "v": [], "w": 4}',
    '{"ts": 4000, "k": "\ufffd", "v": 7, "w": 4, "w": 5}',
]
QUERIES = {
    "a": "SELECT k, sum(v + 1) AS n FROM s WHERE v > 0 GROUP BY tumblingwindow('ss', 5), k",
    "b": "SELECT k, max(v + 1) AS n, count(*) FILTER (WHERE w > 1) AS f FROM s GROUP BY tumblingwindow('mi', 1), k",
    "c": "SELECT upper(k) AS u, count(*) FILTER (WHERE w > 1) AS n FROM s GROUP BY hoppingwindow('ss', 9, 3), upper(k)",
}


def scans(**side: Any) -> dict[str, StreamScan]:
    stream = {
        "format": "json", "path": "in", "schema": "ts BIGINT, k STRING, v BIGINT, w BIGINT",
        "eventtime": {"column": "ts", "type": "unixtimestamp_ms", "strict": True},
    }  # fmt: skip
    config = parse_pipeline(
        {
            "streams": {"s": stream},
            "options": {"eventtime.enabled": True},
            "transforms": {
                name: {"sql": sql, "sink": "out", "side_output": side.get(name, {})} for name, sql in QUERIES.items()
            },
            "sinks": {"out": {"format": "console"}},
        }
    )
    plans = {plan.transform: plan.scan for plan in plan_pipeline(config)}
    return {name: scan.streams[0] for name, scan in plans.items() if scan is not None}


@pytest.fixture
def listing(tmp_path: Path) -> pa.RecordBatch:
    (tmp_path / "rows.json").write_text("\n".join(LINES), encoding="utf-8")
    names = [str(tmp_path / "rows.json"), str(tmp_path / "gone.json")]
    return pa.RecordBatch.from_pydict({"path": names, "modificationTime": pa.array([0, 1], pa.timestamp("us", "UTC"))})


class CountedReader:
    """How often rows are read."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self.reads = reader, 0
        self.place, self.schema = reader.place, reader.schema

    def read(self, handed: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        self.reads += 1
        return self._reader.read(handed)


def shown(each: Scanned) -> Any:
    source = None if each.source is None else each.source.batch.to_pylist()
    return each.rows.schema, each.rows.to_pylist(), each.place, source


@pytest.mark.parametrize(("side", "bad"), [({}, 2), ({"a": {"error": {"sink": "out", "include_original": True}}}, 3)])
def test_each_transform_gets_the_rows_that_it_gets_alone(
    listing: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch, side: dict[str, Any], bad: int
) -> None:
    """Those with original events too, in which a transform sees the columns that it reads. A line is bad because of a
    column only for transforms that read it.
    """
    planned = scans(**side)
    assert set(planned) == set(QUERIES)
    own = {name: worker_scan(each) for name, each in planned.items()}
    whole = worker_scan(merged_scan(list(planned.values()))).reader
    alone = {name: list(scan.read(iter([listing]), CLOCK_US)) for name, scan in own.items()}
    asked: list[int] = []
    evaluate = duckdb_tables.evaluate

    def counting(connection: Any, items: Any, table: pa.Table) -> Any:
        asked.append(len(items))
        return evaluate(connection, items, table)

    monkeypatch.setattr(duckdb_tables, "evaluate", counting)
    counted = CountedReader(whole)
    codec = record_codec(next(iter(planned.values())))
    together = list(SharedScan(counted, own, codec).read(iter([listing]), CLOCK_US))
    assert counted.reads == 1
    for name, wanted in alone.items():
        assert [shown(each[name]) for each in together] == [shown(each) for each in wanted], name
    errors = {name: each[0].rows.column("_error").to_pylist().count("decode_error") for name, each in alone.items()}
    assert errors == {"a": bad, "b": 3, "c": 2}, "no JSON, v and w of other types; original events have all columns"
    assert max(asked) == 5, "v > 0, v + 1 where v > 0, v + 1, w > 1 for two transforms, and upper(k), by one query"
