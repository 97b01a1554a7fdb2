"""Everything that is evaluated without Spark, against Spark: value, type and error for every signature."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.spark import corpus
from windowpane.errors import SqlError
from windowpane.evaluation import duckdb_tables
from windowpane.evaluation.expressions import Computed
from windowpane.sql import SessionFacts, Translated, translate_expression
from windowpane.sql.binding.inference import infer
from windowpane.sql.scalar import read_expression
from windowpane.sql.types import to_arrow

pytestmark = pytest.mark.spark

ZONES = ("UTC", "Europe/Berlin", "America/New_York")
AT_ONCE = 250
INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
"""To compile thousands of expressions takes longer than to evaluate them."""
TYPES = corpus.types()


def install(spark: SparkSession) -> None:
    """Make catalyst's `TryEval` callable: NULL where an expression fails."""
    jvm: Any = spark._jvm
    kind = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.TryEval")
    registry = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase
    built = registry.build("corpus_try", jvm.scala.Option.empty(), jvm.scala.reflect.ClassTag.apply(kind))
    functions = spark._jsparkSession.sessionState().functionRegistry()
    functions.createOrReplaceTempFunction("corpus_try", built._2(), "scala_udf")


def tried(text: str) -> str:
    return f"corpus_try({text})"


def accepted(session: SessionFacts, texts: Sequence[str]) -> dict[str, Translated]:
    found = {}
    for text in texts:
        try:
            found[text] = translate_expression(text, TYPES, session)
        except SqlError as refused:
            if refused.code != "UNSUPPORTED_IN_HARNESS":
                raise
    return found


def in_spark(spark: SparkSession, rows: Any, texts: Sequence[str]) -> tuple[dict[str, pa.Array], dict[str, str]]:
    """Each expression in an envelope: NULL where it fails."""
    values: dict[str, pa.Array] = {}
    kinds: dict[str, str] = {}
    for low in range(0, len(texts), AT_ONCE):
        chosen = texts[low : low + AT_ONCE]
        frame = rows.selectExpr(*(f"{tried(f'array({text}, NULL)')} AS e{at}" for at, text in enumerate(chosen)))
        found = frame.toArrow()
        for at, text in enumerate(chosen):
            values[text] = found.column(at).combine_chunks()
            kinds[text] = frame.schema[at].dataType.elementType.simpleString().upper()
    return values, kinds


def without_spark(given: dict[str, Translated], rows: pa.Table) -> dict[str, tuple[pa.Array, pa.Array]]:
    """The same by DuckDB: values, and where there is none because the expression fails."""
    found: dict[str, tuple[pa.Array, pa.Array]] = {}
    texts = list(given)
    for low in range(0, len(texts), AT_ONCE):
        chosen = texts[low : low + AT_ONCE]
        items = {text: Computed(given[text].text, to_arrow(given[text].type), given[text].fails)
                 for text in chosen}  # fmt: skip
        values, failed = duckdb_tables.evaluate(duckdb_tables.connect(), items, rows)
        nowhere = pa.repeat(pa.scalar(False), rows.num_rows)
        found |= {text: (values[text], failed.get(text, nowhere)) for text in chosen}
    return found


def shown(values: pa.Array | pa.ChunkedArray) -> list[str]:
    """Values as text that tells 0.0 from -0.0, and instants beyond what Python can show."""
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    return [repr(value) for value in values.to_pylist()]


def differences(
    text: str, spark: tuple[pa.Array, str], here: tuple[pa.Array, pa.Array], typed: Translated, rows: pa.Table
) -> list[str]:
    (wanted, kind), (value, failed) = spark, here
    if kind != typed.type:
        return [f"{text}: is {kind}, not {typed.type}"]
    inferred = infer(read_expression(text), TYPES)
    if inferred is not None and inferred != kind:
        return [f"{text}: is {kind}, inferred as {inferred}"]
    fails = wanted.is_null()
    if fails.equals(failed):
        left, right = shown(pc.list_element(wanted, 0)), shown(value)
        if left == right:
            return []
    else:
        left, right = fails.to_pylist(), failed.to_pylist()
    at = next(at for at, pair in enumerate(zip(left, right, strict=True)) if pair[0] != pair[1])
    given = {name: shown(rows.column(name).slice(at, 1))[0] for name in rows.column_names if name in text}
    return [f"{text}: Spark {left[at]}, here {right[at]} for {given}"]


def compared(spark: SparkSession, session: SessionFacts, texts: Sequence[str]) -> tuple[int, list[str]]:
    install(spark)
    rows = corpus.table()
    given = accepted(session, texts)
    frame = spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in TYPES.items()))
    wanted, kinds = in_spark(spark, frame, list(given))
    found = without_spark(given, rows)
    wrong = [
        line
        for text, typed in given.items()
        for line in differences(text, (wanted[text], kinds[text]), found[text], typed, rows)
    ]
    return len(given), wrong


@pytest.mark.parametrize(
    ("zone", "ansi"), [("UTC", True), ("Europe/Berlin", True), ("America/New_York", True), ("UTC", False)]
)
def test_what_is_accepted_is_sparks(
    spark: SparkSession, zone: str, ansi: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    texts = corpus.corpus()
    if zone != "UTC":
        texts = [text for text in texts if any(word in text.lower() for word in ("date", "timestamp"))]
    settings = {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": str(ansi).lower(), **INTERPRETED}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        count, wrong = compared(spark, SessionFacts(utc=zone == "UTC", ansi=ansi), texts)
    finally:
        for name, found in before.items():
            spark.conf.unset(name) if found is None else spark.conf.set(name, found)
    took = time.monotonic() - began
    with capsys.disabled():
        sys.stdout.write(
            f"\n{zone}, ANSI {ansi}: {count} of {len(texts)} expressions, {corpus.ROWS} rows, {took:.0f} s\n"
        )
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)
