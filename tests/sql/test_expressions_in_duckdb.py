"""Expressions evaluated in DuckDB give the values that Spark documents, and guards name what would go wrong."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pytest

from windowpane.errors import SqlError
from windowpane.evaluation import duckdb_tables
from windowpane.sql import error_guard, to_duckdb

TYPES = {
    "a": "BIGINT",
    "b": "BIGINT",
    "i": "INT",
    "t": "TINYINT",
    "d": "DOUBLE",
    "f": "FLOAT",
    "s": "STRING",
    "ts": "TIMESTAMP",
    "day": "DATE",
    "arr": "ARRAY<INT>",
    "info": "STRUCT<a:INT>",
    "m": "DECIMAL(10,2)",
    "ok": "BOOLEAN",
    "low": "BIGINT",
}
ROW = {
    "a": "-7::BIGINT",
    "b": "2::BIGINT",
    "i": "2147483647::INTEGER",
    "t": "127::TINYINT",
    "d": "-2.5::DOUBLE",
    "f": "0.5::FLOAT",
    "s": "' Ab_c'",
    "ts": "TIMESTAMP '1969-12-31 23:59:59.999999'",
    "day": "DATE '2024-01-07'",
    "arr": "[1, 2, 3]",
    "info": "{'a': 5}",
    "m": "1.25::DECIMAL(10,2)",
    "ok": "NULL::BOOLEAN",
    "low": "'-9223372036854775808'::BIGINT",
}


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb_tables.connect()
    columns = ", ".join(f'{value} AS "{name}"' for name, value in ROW.items())
    connection.execute(f"CREATE OR REPLACE TEMP TABLE row AS SELECT {columns}")
    return connection


VALUES = [
    ("a + 1", -6),
    ("a / b", -3.5),
    ("a div b", -3),
    ("a % b", -1),
    ("a * 1.5", Decimal("-10.5")),
    ("-a", 7),
    ("t + 1", 128),
    ("-d", 2.5),
    ("d + 1", -1.5),
    ("f / 2", 0.25),
    ("m + m", Decimal("2.50")),
    ("10L * a", -70),
    ("1e3 + a", 993.0),
    ("pmod(a, 4)", 1),
    ("mod(a, 4)", -3),
    ("abs(a)", 7),
    ("floor(d)", -3),
    ("ceil(d)", -2),
    ("sqrt(16)", 4.0),
    ("a < b", True),
    ("a <=> NULL", False),
    ("NULL = a", None),
    ("a != b", True),
    ("ok AND FALSE", False),
    ("ok OR TRUE", True),
    ("NOT ok", None),
    ("a IS NULL", False),
    ("a IS NOT NULL", True),
    ("ok IS NOT TRUE", True),
    ("a IN (1, -7)", True),
    ("a IN (1, NULL)", None),
    ("a NOT IN (1)", True),
    ("a BETWEEN -8 AND 0", True),
    ("s RLIKE '^ Ab?_[a-z]+'", True),
    ("a NOT BETWEEN -8 AND 0", False),
    (r"s LIKE '%b\\_c'", True),
    (r"'xbxc' LIKE '%b\\_c'", False),
    ("s NOT LIKE 'x%'", True),
    ("CASE WHEN a > 0 THEN 'p' WHEN a < 0 THEN 'n' END", "n"),
    ("CASE b WHEN 2 THEN 1 END", 1),
    ("CASE WHEN ok THEN 1 END", None),
    ("if(ok, 1, 2)", 2),
    ("coalesce(ok, TRUE)", True),
    ("nvl(ok, FALSE)", False),
    ("ifnull(NULL, 3)", 3),
    ("nullif(b, 2)", None),
    ("nvl2(ok, 1, 2)", 2),
    ("greatest(a, NULL, b)", 2),
    ("least(a, b)", -7),
    ("isnull(ok)", True),
    ("isnotnull(ok)", False),
    ("isnan(d)", False),
    ("upper(s)", " AB_C"),
    ("lower(s)", " ab_c"),
    ("length('é😀')", 2),
    ("trim(s)", "Ab_c"),
    ("ltrim(s)", "Ab_c"),
    ("rtrim('a ')", "a"),
    ("s || 'x'", " Ab_cx"),
    ("substring('Spark', 0, 2)", "Sp"),
    ("substring('Spark', -3)", "ark"),
    ("substring('Spark', 2, -1)", ""),
    ("substr('Spark', 2, 2)", "pa"),
    ("substring('abc', -5, 3)", "a"),
    ("left('abc', -1)", ""),
    ("right('abc', 2)", "bc"),
    ("reverse('abc')", "cba"),
    ("repeat('ab', 2)", "abab"),
    ("repeat('ab', -1)", ""),
    ("replace('aaa', '', 'b')", "aaa"),
    ("instr('hello', 'l')", 3),
    ("locate('z', 'hello')", 0),
    ("startswith(s, ' A')", True),
    ("endswith(s, 'c')", True),
    ("contains(s, 'b_')", True),
    ("ascii('')", 0),
    ("ascii('a')", 97),
    ("md5('a')", "0cc175b9c0f1b6a831c399e269772661"),
    ("'it''s'", "it's"),
    (r"'tab\t'", "tab\t"),
    ("cast(d AS INT)", -2),
    ("try_cast('12.5' AS INT)", None),
    ("try_cast('1e2' AS DOUBLE)", 100.0),
    ("try_cast('1d' AS DOUBLE)", 1.0),
    ("try_cast('-Infinity' AS DOUBLE)", float("-inf")),
    ("try_cast(a AS TINYINT)", -7),
    ("try_cast(i AS TINYINT)", None),
    ("cast(a AS STRING)", "-7"),
    ("cast(TRUE AS INT)", 1),
    ("cast(a AS BOOLEAN)", True),
    ("cast(a AS DECIMAL(5,1))", Decimal("-7.0")),
    ("cast(ts AS DATE)", dt.date(1969, 12, 31)),
    ("a::DOUBLE", -7.0),
    ("unix_micros(ts)", -1),
    ("unix_millis(ts)", -1),
    ("unix_seconds(ts)", -1),
    ("unix_micros(timestamp_millis(5))", 5000),
    ("unix_micros(date_trunc('hour', ts))", -3600000000),
    ("unix_micros(ts + INTERVAL '1' SECOND)", 999999),
    ("unix_micros(TIMESTAMP '1970-01-01 00:00:01')", 1000000),
    ("year(day)", 2024),
    ("month(day)", 1),
    ("day(day)", 7),
    ("dayofweek(day)", 1),
    ("weekday(day)", 6),
    ("weekofyear(day)", 1),
    ("quarter(day)", 1),
    ("dayofyear(day)", 7),
    ("hour(ts)", 23),
    ("minute(ts)", 59),
    ("second(ts)", 59),
    ("date_add(day, 3)", dt.date(2024, 1, 10)),
    ("date_sub(day, 7)", dt.date(2023, 12, 31)),
    ("datediff(day, DATE '2024-01-01')", 6),
    ("arr[0]", 1),
    ("get(arr, 5)", None),
    ("element_at(arr, -1)", 3),
    ("array_size(arr)", 3),
    ("info.a + 1", 6),
    ("try_add(i, 1)", None),
    ("try_divide(a, 0)", None),
    ("try_mod(a, 0)", None),
    ("try_multiply(t, 2)", 254),
    ("date_format(ts, \"yyyy-MM-dd'T'HH:mm:ss.SSS\")", "1969-12-31T23:59:59.999"),
    ("regexp_extract(s, '(\\\\w)_(.)', 2)", "c"),
    ("regexp_replace(s, '([A-Z])(b)', '$2$1')", " bA_c"),
    ("split(s, '_')", [" Ab", "c"]),
    ("array_contains(arr, 3)", True),
    ('get_json_object(\'{"a":[1,{"b":"x"}]}\', \'$.a[1].b\')', "x"),
    ("round(d)", -3.0),
    ("bround(d)", -2.0),
    ("round(1.005D, 2)", 1.01),
    ("lpad(s, 7, '*')", "** Ab_c"),
    ("initcap(s)", " Ab_c"),
    ("pmod(a, b)", 1),
    ("s ILIKE '%AB%'", True),
    ("to_date(concat(left(s, 0), '02/01/2024'), 'dd/MM/yyyy')", dt.date(2024, 1, 2)),
    ("cast(concat(left(s, 0), '2024-01-02T03:04:05+01:00') AS TIMESTAMP)", dt.datetime(2024, 1, 2, 2, 4, 5)),  # noqa: DTZ001
    ("add_months(day, 1)", dt.date(2024, 2, 7)),
    ("last_day(day)", dt.date(2024, 1, 31)),
    ("extract(year FROM ts)", 1969),
    ("from_unixtime(a, 'yyyy')", "1969"),
]


@pytest.mark.parametrize(("expression", "expected"), VALUES, ids=[expression for expression, _ in VALUES])
def test_the_value_is_sparks(engine: duckdb.DuckDBPyConnection, expression: str, expected: object) -> None:
    row = engine.execute(f"SELECT {to_duckdb(expression, TYPES)} FROM row").fetchone()
    assert row is not None
    assert row[0] == expected
    assert type(row[0]) is type(expected)


@pytest.mark.parametrize(
    "expression",
    [
        "rand()",
        "my_udf(a)",
        "m / 2",
        "d div 2",
        "s + 1",
        "s = 1",
        "cast(d AS STRING)",
        "cast(s AS TIMESTAMP_NTZ)",
        "cast(unknown AS INT)",
        "cast('x' AS INT)",
        "s RLIKE '[^a]$'",
        "s RLIKE '(?i)a'",
        "s RLIKE '(a*)*'",
        "s RLIKE '(?=a)b'",
        "s RLIKE '(a)\\\\1'",
        "s RLIKE '[a&&b]'",
        "s RLIKE s",
        "regexp_extract(s, '(a)', 2)",
        "regexp_extract(s, '(a)', i)",
        "regexp_replace(s, 'a*', '-')",
        "regexp_replace(s, 'a', '$1')",
        "split(s, '')",
        "lpad(s, 5, '')",
        "get_json_object(s, '$.*')",
        "get_json_object(s, s)",
        "s LIKE s",
        "exp(d)",
        "round(d, -2)",
        "round(d, i)",
        "date_format(ts, 'YYYY')",
        "date_format(ts, s)",
        "to_timestamp(s, 'yy-MM-dd')",
        "to_timestamp(s, 'yyyyMdd')",
        "to_timestamp(s, 'HH:mm')",
        "to_date(s, 'dd MMM yyyy')",
        "transform(arr, x -> x + 1)",
        "a | b & 1",
        "reverse(arr)",
        "date_trunc('decade', ts)",
        "INTERVAL '1' MONTH",
        "timestamp '2024-1-1'",
        "s ILIKE '%Ä%'",
        "s RLIKE '\\\\bb'",
        "s RLIKE 'a++'",
        "year(s)",
        "hour(s)",
        "date_trunc('HOUR', s)",
        "date_trunc('day', day)",
        "nullif(s, 1)",
        "positive(s)",
        "CASE s WHEN 1 THEN 2 END",
        "f + i",
        "pmod(d, 2)",
        "try_multiply(m, m)",
        "day - day",
        "substring(s, i)",
        "left(s, i)",
        "nvl2(ok, a / 0, 1)",
        "a IN (1, a / b)",
        "try_cast(s AS BOOLEAN)",
        "cast(m AS DECIMAL(10,1))",
        "a COLLATE utf8_lcase",
        "extract(second FROM ts)",
    ],
)
def test_what_may_differ_is_refused(expression: str) -> None:
    with pytest.raises(SqlError) as refused:
        to_duckdb(expression, TYPES)
    assert refused.value.code == "UNSUPPORTED_IN_HARNESS"


GUARDED = [
    ("a / 0", "division_by_zero"),
    ("a % (b - 2)", "division_by_zero"),
    ("a div 0", "division_by_zero"),
    ("ok::INT / 0", None),
    ("d / 0.0D", "division_by_zero"),
    ("i + 1", "overflow"),
    ("i + 1L", None),
    ("i * 2", "overflow"),
    ("-(i + 1)", "overflow"),
    ("t + t", "overflow"),
    ("abs(low)", "overflow"),
    ("cast(s AS INT)", "cast_error"),
    ("cast(i AS TINYINT)", "overflow"),
    ("arr[3]", "array_index"),
    ("arr[-1]", "array_index"),
    ("arr[2]", None),
    ("element_at(arr, 0)", "array_index"),
    ("to_date(s, 'yyyy-MM-dd')", "cast_error"),
    ("cast(s AS DATE)", "cast_error"),
    ("pmod(a, 0)", "division_by_zero"),
    ("CASE WHEN b = 2 THEN 1 ELSE a / 0 END", None),
    ("CASE WHEN b = 3 THEN 1 ELSE a / 0 END", "division_by_zero"),
    ("CASE b WHEN 2 THEN i + 1 END", "overflow"),
    ("if(b <> 2, a / 0, 1)", None),
    ("if(a / 0 > 1, 1, 2)", "division_by_zero"),
    ("b <> 2 AND a / 0 > 1", None),
    ("b = 2 AND a / 0 > 1", "division_by_zero"),
    ("ok AND a / 0 > 1", "division_by_zero"),
    ("b = 2 OR a / 0 > 1", None),
    ("ok OR a / 0 > 1", "division_by_zero"),
    ("coalesce(b, a / 0)", None),
    ("coalesce(ok, a / 0 > 1)", "division_by_zero"),
    ("a / (b / 0)", "division_by_zero"),
    ("a IN (1, a / 0)", "division_by_zero"),
]


@pytest.mark.parametrize(("expression", "expected"), GUARDED, ids=[expression for expression, _ in GUARDED])
def test_the_guard_names_the_fault(engine: duckdb.DuckDBPyConnection, expression: str, expected: str | None) -> None:
    guard = error_guard(expression, TYPES)
    reason = None
    if guard is not None:
        row = engine.execute(f"SELECT {to_duckdb(guard, TYPES)} FROM row").fetchone()
        assert row is not None
        reason = row[0]
    assert reason == expected


@pytest.mark.parametrize(
    "expression",
    ["a", "a > 1", "upper(s)", "d * 2", "try_cast(s AS INT)", "cast(i AS BIGINT)", "a / 2", "coalesce(a, 0)"],
)
def test_what_cannot_fail_has_no_guard(expression: str) -> None:
    assert error_guard(expression, TYPES) is None


def test_a_guard_of_unknown_types_is_careful() -> None:
    assert error_guard("x + y", {}) == (
        "CASE WHEN x IS NOT NULL AND y IS NOT NULL AND try_add(x, y) IS NULL THEN 'overflow' END"
    )
