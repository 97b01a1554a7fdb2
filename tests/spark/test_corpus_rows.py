"""The same corpus through what makes rows of the scan and of the harness, the projection, against the envelope.

Values, which rows are error rows, their reasons and what people are told: of every expression that can fail, and of a
sample of the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

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
from windowpane.sql import SessionFacts, Translated
from windowpane.sql.query import Expr

pytestmark = pytest.mark.spark

SAMPLE, AT_ONCE = 150, 60
Told = tuple[list[str], list[str | None], list[str | None]]
"""Values, reasons and details of the rows."""


def by_spark(frame: DataFrame, exprs: Sequence[Expr]) -> dict[str, Told]:
    found: dict[str, Told] = {}
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


def without_spark(rows: pa.RecordBatch, expr: Expr) -> Told:
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
