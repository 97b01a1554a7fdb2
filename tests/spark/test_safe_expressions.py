"""Expressions that run without an envelope never fail: every class of them, over awkward values of every type.

Each type has two columns with all pairs of its values. The expressions are those that `fallible` lets pass, so a class
that is listed as safe and is not built here fails the test.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from windowpane.spark.envelope import _CAST, _FLOAT_SAFE, _NUMBERS, _SAFE, fallible

pytestmark = pytest.mark.spark

TEXTS = [
    "''", "' '", "'a'", "'A'", "'straße'", "'ΑΣ'", "'İi'", "'e\\u0301'", "'😀'", "'\\0'", "repeat('ß', 300)",
    "CAST(X'FF00C328' AS STRING)", "CAST(X'F09F98' AS STRING)",
]  # fmt: skip
FLOATS = ["'NaN'", "'Infinity'", "'-Infinity'", "0.0", "-0.0D", "4.9E-324", "1.7976931348623157E308", "-3.5E38", "0.1"]
VALUES = {
    "BOOLEAN": ["true", "false"],
    "BYTE": ["0", "-128", "127"],
    "SHORT": ["0", "-32768", "32767"],
    "INT": ["0", "1", "-2147483648", "2147483647"],
    "LONG": ["0", "1", "-9223372036854775808", "9223372036854775807"],
    "FLOAT": FLOATS,
    "DOUBLE": FLOATS,
    "DECIMAL(10,2)": ["0", "-99999999.99", "99999999.99"],
    "DECIMAL(38,18)": ["0", "-99999999999999999999.999999999999999999", "99999999999999999999.999999999999999999"],
    "STRING": TEXTS,
    "STRING COLLATE UNICODE_CI": TEXTS,
    "STRING COLLATE UTF8_LCASE": TEXTS,
    "BINARY": ["X''", "X'00'", "X'FF00C328'"],
    "DATE": ["DATE'1970-01-01'", "date_from_unix_date(-2147483648)", "date_from_unix_date(2147483647)"],
    "TIMESTAMP": [f"timestamp_micros({at})" for at in (0, 1 - 2**63, 2**63 - 1)],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"],
    "INTERVAL YEAR TO MONTH": ["INTERVAL '0' YEAR", "INTERVAL '-178956970-8' YEAR TO MONTH"],
    "INTERVAL DAY TO SECOND": ["INTERVAL '0' DAY", "INTERVAL '106751991 04:00:54.775807' DAY TO SECOND"],
    "ARRAY<INT>": ["array()", "array(CAST(NULL AS INT))", "array(1, NULL)"],
    "STRUCT<x: DOUBLE, y: STRING>": ["named_struct('x', double('NaN'), 'y', '')", "named_struct('x', NULL, 'y', NULL)"],
}  # fmt: skip
COMPARED = ("{a} = {b}", "{a} <=> {b}", "{a} < {b}", "{a} <= {b}", "{a} > {b}", "{a} >= {b}", "{a} IN ({b}, {a})")
ANY = (
    *COMPARED, "{a} IS NULL", "{a} IS NOT NULL", "coalesce({a}, {b})", "if({a} = {b}, {a}, {b})",
    "CASE WHEN {a} < {b} THEN {a} WHEN {b} IS NULL THEN {b} END", "NOT ({a} = {b}) OR {b} > {a} AND {a} = {a}",
)  # fmt: skip
TEXT = ("upper({a})", "lower({a})", "length({a})", "startswith({a}, {b})", "endswith({a}, {b})", "contains({a}, {b})")
FLOAT = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "-{a}", "isnan({a})")


def expressions() -> list[str]:
    """By type, `a` and `b` with its number."""
    found = []
    for number, kind in enumerate(VALUES):
        shapes = [*ANY, "CAST({a} AS " + kind + ")"]
        shapes += TEXT if kind.startswith("STRING") else FLOAT if kind in ("FLOAT", "DOUBLE") else ()
        shapes += TEXT[2:] if kind == "BINARY" else ("{a}.x", "{a}.y") if kind.startswith("STRUCT") else ()
        if kind.lower() in _NUMBERS or kind == "INT":
            at = _NUMBERS.index("integer" if kind == "INT" else kind.lower())
            shapes += [f"CAST({{a}} AS {wider.replace('integer', 'int')})" for wider in _NUMBERS[at:]]
        found += [shape.format(a=f"a{number}", b=f"b{number}") for shape in shapes]
    return found


def values(spark: SparkSession) -> DataFrame:
    """A row for each pair; shorter lists of pairs begin again. The optimizer must not see the values."""
    sizes = [1 + len(texts) for texts in VALUES.values()]
    lists = [
        f"array({', '.join(f'CAST({value} AS {kind})' for value in ['NULL', *texts])}) AS v{number}"
        for number, (kind, texts) in enumerate(VALUES.items())
    ]
    columns = [
        f"get(v{number}, {at}) AS {name}{number}"
        for number, size in enumerate(sizes)
        for name, at in (("a", f"CAST(id DIV {size} % {size} AS INT)"), ("b", f"CAST(id % {size} AS INT)"))
    ]
    given = spark.sql(f"SELECT {', '.join(lists)}").localCheckpoint()
    pairs = spark.range(0, max(sizes) ** 2, 1, 1).crossJoin(given)
    return pairs.selectExpr(*columns).localCheckpoint()


def classes(frame: DataFrame) -> set[str]:
    analyzed: Any = frame._jdf.queryExecution().analyzed().expressions()
    nodes = [json.loads(analyzed.apply(at).toJSON()) for at in range(len(frame.columns))]
    return {node["class"] for each in nodes for node in each}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_what_has_no_envelope_never_fails(spark: SparkSession, ansi: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    frame = values(session)
    session.conf.set("spark.sql.ansi.enabled", ansi)
    risky = fallible(frame, expressions())
    texts = [text for text in expressions() if text not in risky]
    assert len(texts) > 0.9 * len(expressions()), sorted(risky)
    computed = [f"{text} AS x{number}" for number, text in enumerate(texts)]
    assert classes(frame.selectExpr(*computed, "1 AS one")) == _SAFE | _FLOAT_SAFE | {_CAST}
    for whole in ("true", "false"):
        session.conf.set("spark.sql.codegen.wholeStage", whole)
        session.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY" if whole == "true" else "NO_CODEGEN")
        for low in range(0, len(computed), 60):
            chosen = frame.selectExpr(*computed[low : low + 60])
            chosen.write.format("noop").mode("overwrite").save()
