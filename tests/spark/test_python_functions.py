"""A Python UDF that raises makes its row an error row, whatever kind of UDF it is and wherever it stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.pandas.functions import arrow_udf, pandas_udf

from tests.spark.jobs import Job, Query, run_together
from windowpane.errors import WindowpaneError
from windowpane.spark.envelope import Envelope, install
from windowpane.spark.python_functions import shielded
from windowpane.sql.query import Expr

pytestmark = pytest.mark.spark


def inverse(value: int) -> int:
    return 12 // value


def by_arrow(values: pa.Array) -> pa.Array:
    return pc.divide(pa.scalar(12, pa.int64()), values.cast(pa.int64()))


def by_pandas(values: pd.Series) -> pd.Series:
    if (values == 0).any():
        raise ZeroDivisionError("of a batch")
    return 12 // values


def by_batches(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for values in batches:
        yield by_pandas(values)


def by_arrow_batches(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
    for values, more in batches:
        yield pc.add(by_arrow(values), more.cast(pa.int64()))


def total(values: pd.Series) -> int:
    return int(values.sum())


def day(value: int) -> dt.date:
    return dt.date(2024, 1, value)


def words(value: int) -> dict[str, Any]:
    return {"half": 6 / value, "at": dt.datetime(2024, 1, value, tzinfo=dt.UTC)}


@pytest.fixture(scope="module")
def functions(spark: SparkSession) -> SparkSession:
    spark.udf.register("inverse", inverse, "int")
    spark.udf.register("quick_inverse", udf(inverse, "int", useArrow=True))
    spark.udf.register("arrow_inverse", arrow_udf(by_arrow, "bigint"))  # type: ignore[call-overload]
    spark.udf.register("pandas_inverse", pandas_udf(by_pandas, "bigint"))  # type: ignore[call-overload]  # its type hints say the rest
    spark.udf.register("batched_inverse", pandas_udf(by_batches, "bigint"))  # type: ignore[call-overload]
    spark.udf.register("arrow_batched", arrow_udf(by_arrow_batches, "bigint"))  # type: ignore[call-overload]
    spark.udf.register("total_of", pandas_udf(total, "bigint"))  # type: ignore[call-overload]
    ballast = bytes(range(256)) * 8192
    spark.udf.register("large", lambda value: len(ballast) // value, "int")
    spark.udf.register("day_of", day, "date")
    spark.udf.register("words", words, "struct<half: double, at: timestamp>")
    spark.udf.register("wrong", lambda value: "no date" if value == 0 else day(value), "date")
    spark.udf.register("Twice", lambda value, times=2: value * times, "int")
    install(spark)
    return spark


ROWS = [(1, "1"), (0, "0"), (2, "x"), (None, "1"), (3, "3")]
NO = "failed"
CASES: dict[str, list[Any]] = {
    "inverse(v)": [12, NO, 6, NO, 4],
    "quick_inverse(v)": [12, NO, 6, NO, 4],
    "arrow_inverse(v)": [12, NO, 6, None, 4],
    "pandas_inverse(coalesce(v, 4))": [12, NO, 6, 3, 4],
    "batched_inverse(coalesce(v, 4))": [12, NO, 6, 3, 4],
    "arrow_batched(v, CAST(s AS INT))": [13, NO, NO, None, 7],
    "day_of(v)": [dt.date(2024, 1, 1), NO, dt.date(2024, 1, 2), NO, dt.date(2024, 1, 3)],
    "wrong(v)": [dt.date(2024, 1, 1), NO, dt.date(2024, 1, 2), NO, dt.date(2024, 1, 3)],
    "words(v).half": [6.0, NO, 3.0, NO, 2.0],
    "inverse(CAST(s AS INT))": [12, NO, NO, 12, 4],
    "arrow_inverse(CAST(s AS INT))": [12, NO, NO, 12, 4],
    "pandas_inverse(CAST(s AS INT)) + 1": [13, NO, NO, 13, 5],
    "CASE WHEN v > 0 THEN inverse(v) ELSE -1 END": [12, -1, 6, -1, 4],
    "inverse(inverse(v))": [1, NO, 2, NO, 3],
    "twice(inverse(v), times => v)": [12, NO, 12, NO, 12],
    "`Twice`(v)": [2, 0, 4, NO, 6],
}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_kind_of_function(functions: SparkSession, ansi: str) -> None:
    frame = functions.createDataFrame(ROWS, "v INT, s STRING").coalesce(1)
    given = str(functions.conf.get("spark.sql.ansi.enabled"))
    functions.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        exprs = [Expr(text, None, ("v", "s")) for text in CASES]
        safe = Envelope.over(frame, exprs, {"v": "INT", "s": "STRING"})
        shown = [f"struct({safe.value(expr)} AS v, {safe.why(expr)} AS why) AS r{at}" for at, expr in enumerate(exprs)]
        found = safe.frame.selectExpr(*shown).collect()
    finally:
        functions.conf.set("spark.sql.ansi.enabled", given)
    got = {text: [NO if row[at].why else row[at].v for row in found] for at, text in enumerate(CASES)}
    assert got == CASES


class Calling(Job):
    """A pipeline that says which functions the session has."""

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "spark": {
                "functions": ["inverse", "arrow_inverse", "pandas_inverse", "batched_inverse", "total_of", "large"]
            }
        }


SCHEMA = "ts BIGINT, id INT, v INT"
GIVEN = [{"ts": 1000, "id": at, "v": value} for at, value in enumerate([1, 0, 2, 3])]
WINDOW = "GROUP BY tumblingwindow('ss', 10)"
PLACES = {
    "where": f"SELECT count(*) AS c FROM s WHERE inverse(v) > 0 {WINDOW}",
    "argument": f"SELECT count(*) AS c, sum(arrow_inverse(v)) AS t FROM s {WINDOW}",
    "key": f"SELECT sum(1) AS c FROM s {WINDOW}, inverse(v) > 0",
    "batches": f"SELECT count(*) AS c FROM s WHERE batched_inverse(v) > 0 {WINDOW}",
    "join": f"SELECT count(*) AS c FROM s LEFT JOIN t ON inverse(s.v) = arrow_inverse(t.w) {WINDOW}",
    "time": "SELECT count(*) AS c FROM s WINDOW TUMBLING (SIZE 10 s) ON timestamp_millis(inverse(v))",
}


def test_a_function_that_raises_stops_no_query(functions: SparkSession, tmp_path: Path) -> None:
    table = {"t": {"schema": "w INT", "rows": [{"w": 1}, {"w": 0}, {"w": 5}]}}
    places = {name: Query(sql, {"s": SCHEMA}, tables=table) for name, sql in PLACES.items()}
    result = f"SELECT v, inverse(v) AS i FROM s {WINDOW}, v HAVING pandas_inverse(v) > 0"
    jobs = [Calling(tmp_path / name, query, shards=1).feed_all([GIVEN]) for name, query in places.items()]
    jobs.append(Calling(tmp_path / "result", Query(result, {"s": SCHEMA}), shards=1).feed_all([GIVEN]))
    *outcomes, last = run_together(functions, jobs, drain=True)
    for name, outcome in zip(places, outcomes, strict=True):
        assert [record["original_event"]["id"] for record in outcome.all_side] == [1], name
        assert [row["c"] for row in outcome.all_rows] == [3], name
    assert [record["group_key"] for record in last.all_side] == [{"v": 0}]
    assert sorted((row["v"], row["i"]) for row in last.all_rows) == [(1, 12), (2, 6), (3, 4)]


def test_what_calls_no_python_function_stays_as_it_is(functions: SparkSession) -> None:
    for text in ("v + 1", "upper(s)", "`inverse` + 1", "'inverse(1)'"):
        assert shielded(functions, text, str) == text


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT count(*) AS c FROM s WHERE total_of(v) > 0", "SPARK_FAILED"),  # Spark itself refuses an aggregate here
        ("SELECT count(*) AS c FROM s WHERE large(v) > 0", "UNSUPPORTED_UDF"),
        ("SELECT count(*) AS c FROM s JOIN t ON inverse(s.v) > t.w", "UNSUPPORTED_JOIN"),
        ("SELECT count(*) AS c FROM s JOIN t ON s.v = t.w AND inverse(t.w) > 1", "UNSUPPORTED_JOIN"),
    ],
)
def test_a_call_that_cannot_be_shielded_is_refused_at_the_start(
    functions: SparkSession, tmp_path: Path, sql: str, code: str
) -> None:
    table = {"t": {"schema": "w INT", "rows": [{"w": 1}]}}
    job = Calling(tmp_path, Query(f"{sql} {WINDOW}", {"s": SCHEMA}, tables=table), shards=1)
    with pytest.raises(WindowpaneError) as refused:
        job.start(functions)
    assert refused.value.code == code
