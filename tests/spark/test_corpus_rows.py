"""The same corpus through what makes rows of the scan and of the harness, the projection, against the envelope.

Values, which rows are error rows, their reasons and what people are told: of every expression that can fail, and of a
sample of the others.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark import corpus
from tests.spark.test_corpus import INTERPRETED, TYPES, accepted, shown
from windowpane.core import columns as c
from windowpane.errors import SqlError
from windowpane.plan.evaluation import Compiler
from windowpane.plan.node_fields import InputColumn
from windowpane.spark.envelope import Envelope, install
from windowpane.spark.fold import CLOCK
from windowpane.spark.inputs import InputFrame
from windowpane.sql import SessionFacts, Translated
from windowpane.sql.query import Expr
from windowpane.testing import Harness

pytestmark = pytest.mark.spark

SAMPLE, AT_ONCE = 150, 60
Evaluated = tuple[list[str], list[str | None], list[str | None]]
"""Values, reasons and details of the rows."""


def by_spark(frame: DataFrame, exprs: Sequence[Expr]) -> dict[str, Evaluated]:
    found: dict[str, Evaluated] = {}
    for low in range(0, len(exprs), AT_ONCE):
        chosen = exprs[low : low + AT_ONCE]
        safe = Envelope.over(frame, chosen, TYPES)
        texts = [[f"array({safe.value(expr)}, NULL)", safe.why(expr) or "CAST(NULL AS STRING)",
                  safe.blamed(expr) or "CAST(NULL AS STRING)"] for expr in chosen]  # fmt: skip
        parts = [f"{text} AS p{number}_{at}" for number, three in enumerate(texts) for at, text in enumerate(three)]
        table = safe.frame.selectExpr(*parts).toArrow()
        for number, expr in enumerate(chosen):
            value, why, detail = (table.column(f"p{number}_{at}").combine_chunks() for at in range(3))
            found[expr.text] = shown(pc.list_element(value, 0)), why.to_pylist(), detail.to_pylist()
    return found


def without_spark(rows: pa.RecordBatch, expr: Expr) -> Evaluated:
    projection = Compiler(TYPES).projection([InputColumn("x", expr, "argument")], where=None)
    made = projection.rows(rows, 0)
    nothing: list[str | None] = [None] * rows.num_rows
    if c.ERROR not in made.schema.names:
        return shown(made.column("x")), nothing, nothing
    return shown(made.column("x")), made.column(c.ERROR).to_pylist(), made.column(c.DETAIL).to_pylist()


def chosen_texts() -> dict[str, Translated]:
    given = accepted(SessionFacts(), corpus.corpus())
    safe = [text for text, typed in given.items() if not typed.fails]
    some = set(random.Random(3).sample(safe, SAMPLE))
    return {text: typed for text, typed in given.items() if (typed.fails and has_reason(text, typed)) or text in some}


def has_reason(text: str, typed: Translated) -> bool:
    """An expression whose guard cannot be evaluated is refused."""
    try:
        Compiler(TYPES).computed(Expr(text, typed.type))
    except SqlError:
        return False
    return True


def test_rows_are_the_same_with_their_reasons(spark: SparkSession) -> None:
    install(spark)
    before = {name: spark.conf.get(name, None) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    table, given = corpus.table(), chosen_texts()
    frame = spark.createDataFrame(table, ", ".join(f"{name} {kind}" for name, kind in TYPES.items()))
    exprs = [Expr(text, typed.type) for text, typed in given.items()]
    try:
        wanted = by_spark(frame, exprs)
    finally:
        for name, found in before.items():
            spark.conf.unset(name) if found is None else spark.conf.set(name, found)
    batch, wrong = table.combine_chunks().to_batches()[0], []
    for expr in exprs:
        here, spark_says = without_spark(batch, expr), wanted[expr.text]
        wrong += differing(f"{expr.text}: value", spark_says[0], here[0])
        wrong += differing(f"{expr.text}: reason", spark_says[1], here[1])
        wrong += differing(f"{expr.text}: detail", spark_says[2], here[2])
    assert len(exprs) > SAMPLE
    assert not wrong, f"{len(wrong)} of {len(exprs)} differ:\n" + "\n".join(wrong)


def differing(what: str, spark: Sequence[object], here: Sequence[object]) -> list[str]:
    at = next((at for at, pair in enumerate(zip(spark, here, strict=True)) if pair[0] != pair[1]), None)
    return [] if at is None else [f"{what}: Spark {spark[at]}, here {here[at]} in row {at}"]


TIMES: dict[str, tuple[str, str, list[Any]]] = {
    "seconds": ("ts", "unixtimestamp_s", [0, 1, -1, None, 2**62 // 10**6, 2**62 // 10**6 + 1, 2**63 - 1, -(2**63)]),
    "micros": ("ts", "unixtimestamp_us", [5, None, 2**62 - 1, 2**62, -(2**62), -(2**62) - 1, 2**63 - 1]),
    "iso": ("iso", "iso8601", ["2024-01-01T00:00:01Z", "2024-02-30", "", None, "x'y", "2024-01-01 00:00+01:00"]),
    "instant": ("at", "timestamp", [0, None, -1, 1_700_000_000_000_000, 253_402_300_799_999_999]),
}
STREAM = "ts BIGINT, iso STRING, at TIMESTAMP, received_at STRING, a INT, b INT, s STRING, k STRING, xs ARRAY<INT>"
SQL = (
    "SELECT k, sum(a / b) FILTER (WHERE a % b >= 0) AS x, max(CAST(s AS INT)) AS y, max(a + b) AS z, max(xs[a]) AS e "
    "FROM s WHERE CAST(s AS INT) + a > -100000 GROUP BY tumblingwindow('ss', 10), k, upper(k), a div b"
)
FROMS = {
    "plain": SQL,
    "on": "SELECT k, max(a / b) AS x FROM s GROUP BY k WINDOW TUMBLING (SIZE 10 SECONDS) ON {column}",
    "union": "SELECT k, max(x / y) AS m FROM (SELECT k, a + b AS x, b AS y FROM s WHERE a % b = 0 UNION ALL "
    "SELECT k, a, b FROM t WHERE a > 0) GROUP BY tumblingwindow('ss', 10), k",
    "twice": "SELECT k, max(x / y) AS m FROM (SELECT k, a - b AS x, b AS y FROM s UNION ALL "
    "SELECT k, a, b FROM s WHERE a > 0) GROUP BY tumblingwindow('ss', 10), k",
}


def time_rows(name: str) -> pa.Table:
    """Every time with every pair of numbers."""
    column, _, times = TIMES[name]
    numbers: list[int | None] = [1, 2**31 - 1, -7, None]
    cells: list[Any] = list(itertools.product(times, numbers, [0, 2, -1], ["5", "no", None]))
    names = [("x", "\u00df")[at % 2] for at in range(len(cells))]
    given = {
        "ts": pa.nulls(len(cells), pa.int64()), "iso": pa.nulls(len(cells), pa.string()),
        "at": pa.nulls(len(cells), pa.timestamp("us", "UTC")),
        "received_at": pa.array([("2024-01-01T00:00:03Z", None, "soon")[at % 3] for at in range(len(cells))]),
        "a": pa.array([cell[1] for cell in cells], pa.int32()), "b": pa.array([cell[2] for cell in cells], pa.int32()),
        "s": pa.array([cell[3] for cell in cells]), "k": pa.array(names),
        "xs": pa.array([([7, 8], None, [])[at % 3] for at in range(len(cells))], pa.list_(pa.int32())),
    }  # fmt: skip
    given[column] = pa.array([cell[0] for cell in cells], given[column].type)
    return pa.table(given)


@pytest.mark.parametrize("strict", [True, False])
def test_inputs_are_sparks_with_their_times(spark: SparkSession, strict: bool) -> None:
    wrong = []
    for (name, (column, kind, _)), (shape, sql) in itertools.product(TIMES.items(), FROMS.items()):
        eventtime = {"column": column, "type": kind, "strict": strict}
        streams = {key: {"schema": STREAM, "eventtime": eventtime} for key in "st"}
        if shape == "on" and name != "instant":
            continue
        harness = Harness(sql.format(column=column), streams=streams, options={"eventtime": {"enabled": True}}, now=0)
        rows = time_rows(name)
        here = harness._inputs.rows(harness._pushed(rows, "s", "0"))
        there = spark_inputs(spark.createDataFrame(rows, STREAM).coalesce(1), harness)
        wrong += [f"{name}, {shape}: {line}" for line in input_differences(there, here)]
    assert not wrong, "\n".join(wrong)


def spark_inputs(frame: DataFrame, harness: Harness) -> pa.Table:
    """Rows of stream `s`; all others are empty."""
    plan = harness.plan

    def stream(name: str) -> DataFrame:
        return frame if name == "s" else frame.where("FALSE")

    made = InputFrame(frame.sparkSession, plan.stages.input, plan.types, stream, stream, clock=True)
    return made.build().toArrow()


def input_differences(there: pa.Table, here: pa.RecordBatch) -> list[str]:
    """Times but those of the clock, reasons and details of all rows; values of the good ones."""
    if there.num_rows != here.num_rows:
        return [f"Spark {there.num_rows} rows, here {here.num_rows}"]
    wrong = []
    for name in (c.ERROR, c.DETAIL):
        spark = there.column(name).to_pylist() if name in there.column_names else [None] * there.num_rows
        wrong += differing(name, spark, here.column(name).to_pylist())
    clocked = there.column(CLOCK).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    times = pc.if_else(pc.equal(there.column(c.EVENT_TIME), clocked), 0, there.column(c.EVENT_TIME))
    wrong += differing(c.EVENT_TIME, times.to_pylist(), here.column(c.EVENT_TIME).to_pylist())
    keep = there.column(c.KEEP) if c.KEEP in there.column_names else pa.repeat(pa.scalar(True), there.num_rows)
    wrong += differing(c.KEEP, keep.to_pylist(), here.column(c.KEEP).to_pylist())
    good = pc.and_(here.column(c.ERROR).is_null(), here.column(c.KEEP))
    for name in [name for name in there.column_names if name.startswith(("_k", "_a"))]:
        wrong += differing(name, shown(there.column(name).filter(good)), shown(here.column(name).filter(good)))
    return wrong
