"""The files of a micro-batch are those that Spark's source log names, each read once, in both ways of reading."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import FIRST_FILE_TIME, Outcome, finish
from windowpane.connectors.sinks import MemorySink, SinkBatch
from windowpane.connectors.unreadable_files import GONE
from windowpane.errors import SinkError, WindowpaneError
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

NAMES = (
    "plain.json", "other.json", "a b.json", "a%20b.json", "50%.json", "n#1.json", "[1].json", "{x,y}.json", "why?.json",
    "*.json", "back\\slash.json", "ü€😀.json", "two\nlines.json", "a=b.json", "+&;'\".json",
)  # fmt: skip
LATER = 10_000_000
"""Closes the windows before it, so that there are results to write."""
HIDDEN = (".hidden.json", "_hidden.json")


COUNTING = "SELECT v, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 60), v"


class Failing(MemorySink):
    """Takes no batch: what is planned stays planned."""

    def write(self, batch: SinkBatch) -> None:
        raise SinkError("SINK_WRITE", f"not {batch.batch_id}", passing=False)


def feed(folder: Path, name: str, number: int, *, form: str = "json", at: int = FIRST_FILE_TIME) -> None:
    text = f'{{"ts": {number}, "v": {number}}}\n' if form == "json" else f"{number},{number}\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    os.utime(folder / name, (at, at))


def pipeline(folder: Path, reader: str, *sinks: MemorySink, form: str = "json", **options: Any) -> Pipeline:
    stream = {
        "format": form, "path": "in", "schema": "ts BIGINT, v BIGINT", "scan": reader, "options": options,
        "eventtime": {"column": "ts", "type": "unixtimestamp_ms", "strict": True},
    }  # fmt: skip
    dlq = {"sink": "dlq", "include_original": True, "rate_limit": "off"}
    settings = {
        "streams": {"s": stream},
        "options": {"eventtime": {"enabled": True}, "trigger": "available_now", "checkpoint": "state", "shards": 1},
        "transforms": {"q": {"sql": COUNTING, "sink": "results", "side_output": {"error": dlq}}},
        "sinks": {"results": {"format": "memory"}, "dlq": {"format": "memory"}},
    }
    return Pipeline.from_dict(settings, folder, sinks={sink.name: sink for sink in sinks})


def run(spark: SparkSession, folder: Path, reader: str, **options: Any) -> tuple[Outcome, list[int]]:
    """What the ledger says, and the values that were read, by batch."""
    results, dlq = MemorySink("results"), MemorySink("dlq")
    of = pipeline(folder, reader, results, dlq, **options)
    finish(of.start(spark), drain=True)
    ledger = of.checkpoint(of.plans[0]).ledger
    entries = [entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None]
    side = {0: [json.loads(row[0]) for row in dlq.rows]}
    return Outcome(side=side, entries=entries), [row["v"] for row in results.rows for _ in range(row["n"])]


@pytest.mark.parametrize(("reader", "form"), [("columnar", "json"), ("spark", "json"), ("spark", "csv")])
def test_every_file_is_read_once_whatever_its_name(spark: SparkSession, tmp_path: Path, reader: str, form: str) -> None:
    for number, name in enumerate(NAMES):
        feed(tmp_path / "in", name, number, form=form)
    for name in HIDDEN:
        feed(tmp_path / "in", name, 99, form=form)
    found, values = run(spark, tmp_path, reader, form=form)
    assert sorted(values) == list(range(len(NAMES)))
    totals = found.entries[-1].totals
    assert (totals["in_"], totals["error"]) == (len(NAMES), 0)


@pytest.mark.parametrize(("reader", "form"), [("columnar", "json"), ("spark", "json"), ("spark", "csv")])
def test_a_file_that_is_gone_before_its_batch_is_an_error_row(
    spark: SparkSession, tmp_path: Path, reader: str, form: str
) -> None:
    """The batch is planned, its files go, and it is read by another start: twice, with a file that is back then."""
    data = tmp_path / "in"
    names = ["here.json", "gone [1].json", "folder.json", "back.json"]
    for number, name in enumerate(names):
        feed(data, name, number, form=form)
    feed(data, "later.json", LATER, form=form)
    with pytest.raises(WindowpaneError, match="not 0"):
        finish(pipeline(tmp_path, reader, Failing("results"), MemorySink("dlq"), form=form).start(spark), drain=False)
    for name in names[1:]:
        (data / name).unlink()
    feed(data / "folder.json", "inside.json", 77, form=form)
    with pytest.raises(WindowpaneError, match="not 0"):
        finish(pipeline(tmp_path, reader, Failing("results"), MemorySink("dlq"), form=form).start(spark), drain=False)
    feed(data, "back.json", 3, form=form)
    found, values = run(spark, tmp_path, reader, form=form)
    assert values == [0, LATER]
    totals = found.entries[-1].totals
    assert (totals["in_"], totals["error"], totals["aggregated"]) == (5, 3, 2)
    details = Counter(record["error_detail"] for record in found.all_side)
    assert details == Counter(f"file://{data}/{name}: {GONE}" for name in ["gone%20%5B1%5D.json", *names[2:]])


def test_bad_xml_records_are_error_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = "".join(f"<row><ts>{ts}</ts><v>{v}</v></row>" for ts, v in ((1, "1"), (2, "many"), (LATER, "3")))
    (tmp_path / "in" / "a.xml").write_text(f"<rows>{rows}</rows>", encoding="utf-8")
    outcome, values = run(spark, tmp_path, "spark", form="xml", rowTag="row")
    assert (values, outcome.entries[-1].totals["error"]) == ([1, 3], 1)
    assert [record["reason"] for record in outcome.all_side] == ["decode_error"]
