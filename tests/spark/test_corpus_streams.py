"""The corpus as streaming queries, from a file to a sink, in both ways of reading.

The other tests of the corpus evaluate its expressions by themselves. These prove that their values and types also
survive a whole pipeline: the planner takes the query for the columnar scan, workers read the file, values pass the fold
stage, the wire, the state and the merge stage, and leave with the type that Spark gives. Each pack of expressions is
one wide query that runs twice, once with the columnar scan and once with Spark's reader; every value is compared with
what Spark computes in a batch. If any expression of a pack fails on a row, both runs must make the same error row of
it. Expressions that fail are packed with those that fail on the same rows, so that most of their values are seen.

An ordinary run takes a sample that is always the same; `make search` takes all expressions.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.search import scaled
from tests.spark import corpus
from tests.spark.jobs import finish
from tests.spark.test_corpus import INTERPRETED, TYPES, accepted, in_spark, install, shown
from tests.spark.test_corpus_rows import has_reason
from windowpane.connectors.sinks import CallableSink, MemorySink, Sink
from windowpane.runtime import Pipeline
from windowpane.sql import SessionFacts

pytestmark = pytest.mark.spark

READERS = ("columnar", "spark")
SAFE, SAFE_AT_ONCE = 120, 120
FAILING, FAILING_AT_ONCE = 40, 60
"""Expressions of an ordinary run, and of one query."""
FOUND = ("(timestamp_ntz_a + INTERVAL '1' DAY)", "add_months(date_a, int_b)", "try_divide(int_a, int_b)")
"""What was wrong once only in a pipeline: a result's type, the original event of an error row, a scan refused."""


class Run:
    """What one pack gives in one way of reading."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.kinds: list[str] = []
        self.side = MemorySink("side")

    def take(self, frame: DataFrame, _batch_id: int) -> None:
        self.tables.append(frame.toArrow())
        self.kinds = [kind.upper() for _, kind in frame.dtypes[1:]]

    def values(self) -> pa.Table | None:
        """The results by row; None if all rows have failed."""
        return pa.concat_tables(self.tables).sort_by("row").combine_chunks() if self.tables else None

    def errors(self) -> dict[int, tuple[object, ...]]:
        """Reason, detail and original by row."""
        records = [json.loads(row[0]) for row in self.side.rows]
        return {
            each["original_event"]["row"]: (each["reason"], each["error_detail"], _original(each["original_event"]))
            for each in records
        }


def _original(event: dict[str, Any]) -> dict[str, Any]:
    """Before version 19, Java writes some FLOATs with more digits than they need."""
    return {
        name: repr(np.float32(value)) if name.startswith("float_") and value is not None else value
        for name, value in event.items()
    }


def sampled() -> tuple[list[str], list[str]]:
    """Expressions that never fail, and those that can."""
    given = accepted(SessionFacts(), corpus.corpus())
    safe = [text for text, typed in given.items() if not typed.fails]
    failing = [text for text, typed in given.items() if typed.fails and has_reason(text, typed)]
    rng = random.Random(7)
    return _some(safe, SAFE, rng), _some(failing, FAILING, rng)


def _some(texts: list[str], count: int, rng: random.Random) -> list[str]:
    always = [text for text in texts if text in FOUND]
    return list(dict.fromkeys([*always, *rng.sample(texts, min(len(texts), scaled(count)))]))


def packs(safe: Sequence[str], failing: Sequence[str], wanted: dict[str, pa.Array]) -> Iterator[list[str]]:
    """What the scan takes and what it leaves to Spark are in packs of their own."""
    for scanned in (True, False):
        chosen = [text for text in safe if is_scanned(text) == scanned]
        yield from (chosen[low : low + SAFE_AT_ONCE] for low in range(0, len(chosen), SAFE_AT_ONCE))
        yield from similar([text for text in failing if is_scanned(text) == scanned], wanted)


def similar(failing: Sequence[str], wanted: dict[str, pa.Array]) -> list[list[str]]:
    """Expressions packed so that at least half of the rows on which one does not fail are good in the whole pack."""
    good = {text: wanted[text].is_valid().to_numpy(zero_copy_only=False) for text in failing}
    found: list[list[str]] = []
    for text in sorted(failing, key=lambda text: -int(good[text].sum())):
        for pack in found:
            left = np.logical_and.reduce([good[each] for each in (*pack, text)]).sum()
            if len(pack) < FAILING_AT_ONCE and all(2 * left >= good[each].sum() for each in (*pack, text)):
                pack.append(text)
                break
        else:
            found.append([text])
    return found


@cache
def is_scanned(text: str) -> bool:
    """Whether the planner chooses the columnar scan, which it does only if it knows the type too."""
    return pipeline(Path(), [text], {"auto": Run()}).plans[0].scan is not None


def pipeline(folder: Path, pack: Sequence[str], runs: dict[str, Run]) -> Pipeline:
    """The pack in all ways of reading; each row is a group of its own."""
    columns = ", ".join(f"first({text}, false) AS v{at}" for at, text in enumerate(pack))
    used = ["row INT", "ts BIGINT"]
    used += [f"{name} {kind}" for name, kind in TYPES.items() if any(name in text for text in pack)]
    stream = {"format": "parquet", "path": str(folder.parent / "in"), "schema": ", ".join(used),
              "eventtime": {"column": "ts", "type": "unixtimestamp_ms", "strict": True}}  # fmt: skip
    transforms: dict[str, Any] = {
        reader: {
            "sql": f"SELECT row, {columns} FROM {reader} GROUP BY tumblingwindow('ss', 10), row", "sink": reader,
            "side_output": {"error": {"sink": f"side_{reader}", "include_original": True}},
        }
        for reader in runs
    }  # fmt: skip
    sinks: dict[str, Sink] = {reader: CallableSink(reader, run.take) for reader, run in runs.items()}
    sinks |= {f"side_{reader}": run.side for reader, run in runs.items()}
    settings = {
        "streams": {reader: stream | {"scan": reader} for reader in runs},
        "options": {"eventtime": {"enabled": True}, "trigger": "available_now", "shards": 1,
                    "checkpoint": str(folder)},
        "transforms": transforms,
        "sinks": {name: {"format": "memory"} for name in sinks},
    }  # fmt: skip
    return Pipeline.from_dict(settings, sinks=sinks)


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield
    for name, found in before.items():
        spark.conf.unset(name) if found is None else spark.conf.set(name, found)


def differences(pack: Sequence[str], wanted: dict[str, pa.Array], kinds: dict[str, str], run: Run) -> list[str]:
    """Between a run and what Spark computes in a batch."""
    good = np.logical_and.reduce([wanted[text].is_valid().to_numpy(zero_copy_only=False) for text in pack])
    rows, found = np.flatnonzero(good).tolist(), run.values()
    seen = found.column("row").to_pylist() if found is not None else []
    if sorted([*seen, *run.errors()]) != list(range(corpus.ROWS)) or seen != rows:
        return [f"results are of the rows {seen}, errors of {sorted(run.errors())}; good are {rows}"]
    if found is None:
        return []
    wrong = [
        f"{text}: is {kinds[text]}, in the pipeline {kind}"
        for text, kind in zip(pack, run.kinds, strict=True)
        if kind != kinds[text]
    ]
    for at, text in enumerate(pack):
        left, right = shown(pc.list_element(wanted[text], 0).take(pa.array(rows))), shown(found.column(f"v{at}"))
        for row, one, other in zip(rows, left, right, strict=True):
            if one != other:
                wrong.append(f"{text}: Spark {one}, the pipeline {other} in row {row}")
                break
    return wrong


def test_pipelines_give_what_spark_gives(spark: SparkSession, tmp_path: Path) -> None:
    install(spark)
    table = corpus.table()
    file = table.append_column("row", pa.array(range(corpus.ROWS), pa.int32()))
    file = file.append_column("ts", pa.repeat(pa.scalar(1000), corpus.ROWS))
    (tmp_path / "in").mkdir()
    pq.write_table(file, tmp_path / "in" / "rows.parquet")
    safe, failing = sampled()
    assert sum(map(is_scanned, safe)) > 0.8 * len(safe), "the planner leaves too much to Spark"
    with interpreted(spark):
        frame = spark.createDataFrame(table, ", ".join(f"{name} {kind}" for name, kind in TYPES.items()))
        wanted, kinds = in_spark(spark, frame, [*safe, *failing])
        wrong = [
            line
            for number, pack in enumerate(packs(safe, failing, wanted))
            for line in compared(spark, tmp_path / f"state{number}", pack, wanted, kinds)
        ]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)


def compared(
    spark: SparkSession, folder: Path, pack: Sequence[str], wanted: dict[str, pa.Array], kinds: dict[str, str]
) -> list[str]:
    runs = {reader: Run() for reader in (READERS if is_scanned(pack[0]) else READERS[1:])}
    made = pipeline(folder, pack, runs)
    assert [plan.scan is not None for plan in made.plans] == [reader == "columnar" for reader in runs], pack
    finish(made.start(spark), drain=True)
    wrong = [f"{reader}: {line}" for reader, run in runs.items() for line in differences(pack, wanted, kinds, run)]
    errors = [run.errors() for run in runs.values()]
    wrong += [
        f"error row {row}: {[each.get(row) for each in errors]}"
        for row in errors[0]
        if any(each.get(row) != errors[0][row] for each in errors)
    ]
    return wrong
