"""The corpus: every signature of the evaluator's table as Spark SQL, over columns of awkward values and literals."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import cycle, islice

import pyarrow as pa

from tests.spark.corpus_written import EXTRA, WRITTEN, generated
from windowpane.sql.signatures import LITERAL, TABLE, Signature, find_signature
from windowpane.sql.types import to_arrow

ROWS = 576
DECIMALS = ("DECIMAL(10,2)", "DECIMAL(18,0)", "DECIMAL(38,10)")
"""Decimals have signatures of every precision: a narrow one, one that fills 64 bits, and the widest."""
_DAY_US = 86_400_000_000
_CLOCK_CHANGE_US = 1_711_846_800_000_000  # 2024-03-31T01:00Z: clocks go forward in Berlin
_TEXTS = (
    None, "", " ", "a", "A", "aB c", "straße", "ΑΣ", "ΣΑΣ.", "e\u0301x", "\u0130i", "ﬁ", "😀b", "👨‍👩‍👧",
    "\ud7a3\u1100",
    "a%b_c\\", "a\rb\nc", "12", " -7 ", "1.5", "1e3", "NaN", "-Infinity", "true",
)  # fmt: skip


def _integers(bits: int) -> list[int | None]:
    high = 2 ** (bits - 1)
    return [None, 0, 1, -1, 2, 7, -7, 100, high - 1, -high, high // 2, -high + 1]


_FLOATS = [None, 0.0, -0.0, 1.0, -1.0, 0.1, 1.5, -2.5, 1e10, float("nan"), float("inf"), float("-inf"), 2.0**31,
           2.0**63, -(2.0**63), 1e300, 5e-324]  # fmt: skip
_INSTANTS = [
    None, 0, -1, 999_999, 1_704_067_199_999_999, _CLOCK_CHANGE_US - 1, _CLOCK_CHANGE_US, 1_729_990_800_000_000,
    -62_135_596_800_000_000, 253_402_300_799_999_999, -2_208_988_800_000_001, 951_782_400_000_000,
    -62_135_596_800_000_001, 253_402_300_800_000_000, -62_198_755_200_000_000, 2**63 - 1, -(2**63), -(2**63) + 1,
    2**63 - 2, -(2**63) + 2, 9_223_372_036_800_000_000, -9_223_372_022_400_000_000, -9_223_372_022_400_000_001,
]  # fmt: skip
_DATES = [
    None, dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 31),
    dt.date(1969, 12, 31), dt.date(2023, 1, 1), dt.date(2020, 12, 31), dt.date(1582, 10, 10), dt.date(1900, 3, 1),
    -719_163, 2_932_897, -719_894, 2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1, -(2**31) + 2, 106_751_991,
    -106_751_992, 106_751_992, -106_751_993,
]  # fmt: skip
VALUES: dict[str, list[object]] = {
    "BOOLEAN": [None, True, False],
    "TINYINT": [*_integers(8)], "SMALLINT": [*_integers(16)], "INT": [*_integers(32)], "BIGINT": [*_integers(64)],
    "FLOAT": [*_FLOATS[:-2]], "DOUBLE": [*_FLOATS],
    "STRING": [*_TEXTS],
    "DATE": [*_DATES], "TIMESTAMP": [*_INSTANTS], "TIMESTAMP_NTZ": [*_INSTANTS],
    "DECIMAL(10,2)": [None, *map(Decimal, ("0.00", "1.25", "-7.00", "99999999.99", "-99999999.99", "0.01"))],
    "DECIMAL(18,0)": [None, *map(Decimal, ("0", "1", "-3", "999999999999999999", "-999999999999999999"))],
    "DECIMAL(38,10)": [None, *map(Decimal, ("0", "1.5", "-0.0000000001", "9999999999999999999999999999.9999999999"))],
}  # fmt: skip
LITERALS: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("TRUE", "FALSE"),
    "TINYINT": ("CAST(5 AS TINYINT)",), "SMALLINT": ("CAST(-5 AS SMALLINT)",),
    "INT": ("3", "0", "-1", "2147483647", "-2147483648"), "BIGINT": ("10L", "9223372036854775807", "0L"),
    "FLOAT": (), "DOUBLE": ("1.5D", "0.0D", "1e3"),
    "STRING": ("'a'", "''", "'Σß'"),
    "DATE": ("DATE '2024-02-29'",), "TIMESTAMP": ("TIMESTAMP '2024-03-31 01:00:00'",), "TIMESTAMP_NTZ": (),
}  # fmt: skip
_PATTERNS = {
    "LIKE": ("'%'", "'a%'", "'_'", "'%b\\\\_c%'", "'%\\n%'"), "NOT LIKE": ("'%a%'", "''"),
    "concat_ws": ("'-'", "''", "'ß'"),
}  # fmt: skip
_SHAPES = {
    "negative": "-{0}", "NOT": "NOT {0}", "IS NULL": "{0} IS NULL", "IS TRUE": "{0} IS TRUE",
    "IS FALSE": "{0} IS NOT FALSE", "IF": "if(boolean_c, {0}, {1})",
    "CASE": "CASE WHEN boolean_c THEN {0} WHEN int_c > 0 THEN {1} END", "[]": "{0}[{1}]",
}  # fmt: skip
"""How the syntax of a signature is written that is neither a function nor an operator between two operands."""

NAMED = (
    "upper('straße')", "upper(string_a)", "lower('ΑΣ')", "lower(string_a)", "reverse(string_a)",
    "substring(string_a, int_b)", "substring(string_a, 1, int_b)", "substring(string_a, NULL)",
    "substring(string_a, -2147483648, 2147483647)", "left(string_a, int_b)", "right(string_a, NULL)",
    "left(string_a, 2147483647)", "right(string_a, -2147483648)", "nullif(string_a, 1)", "positive(string_a)",
    "negative(0.0)", "negative(double_a)", "floor(bigint_a)", "ceil(bigint_a)", "floor(double_a)", "ceil(float_a)",
    "float_a + int_a", "float_a = 0.1", "float_a > 0.5", "float_a * 2", "float_a / int_b",
    "CASE string_a WHEN 1 THEN 2 END",
    "TRY_CAST(string_a AS BOOLEAN)", "string_a ILIKE '%A%'", "string_a RLIKE '[^a]'", "string_a RLIKE '[[:alpha:]]'",
    "string_a RLIKE 'a.b'", "string_a RLIKE 'a++'", "-decimal_10_2_a", "date_trunc('day', date_a)",
    "date_trunc('DAY', timestamp_a)", "pmod(int_a, int_b)", "pmod(int_a, -3)", "pmod(int_a, 2147483647)",
    "try_multiply(decimal_10_2_a, decimal_10_2_b)", "date_a - date_b", "datediff(date_a, date_b)", "year(string_a)",
    "hour(string_a)", "date_trunc('HOUR', string_a)", "bigint_a - bigint_b < 10", "abs(int_a - int_b)",
    "bigint_a * bigint_b + 1", "CASE WHEN int_a - int_b > 0 THEN int_a - int_b ELSE 0 END", "int_a % int_b",
    "decimal_10_2_a * decimal_10_2_b", "floor(double_a / 10) * 10", "string_a > 5", "string_a = int_a",
    "string_a IN (1, 2)", "timestamp_millis(bigint_a)", "int_b <> 0 AND int_a % int_b = 1",
    "int_b = 0 OR int_a / int_b > 1", "coalesce(int_a, int_a % int_b)", "int_a + int_b * int_c",
    "int_a / (int_b - int_c)", "bigint_a IN (1, 2, NULL)", "bigint_a IN (1, 9223372036854775807)",
    "double_a IN (0, 1.5)", "string_a IN ('a', '')", "bigint_a NOT IN (7)", "int_a BETWEEN -1 AND bigint_b",
    "double_a BETWEEN 0 AND 1.5", "string_a BETWEEN 'a' AND 'b'", "CASE int_a WHEN 1 THEN 'x' WHEN 7L THEN 'y' END",
    "double_a > 0.1", "bigint_a > 0.5", "bigint_a * 1.5", "decimal_10_2_a > 1", "decimal_10_2_a * 2 + 1",
    "coalesce(double_a, 0)", "coalesce(bigint_a, 0)", "if(boolean_a, 1, 2.5)", "-2147483648 + tinyint_a",
    "timestamp_a + INTERVAL '90' MINUTE", "timestamp_a - INTERVAL '1' DAY", "timestamp_a + INTERVAL 5 SECONDS",
    "CAST(timestamp_a AS STRING)", "CAST(timestamp_a AS DATE)", "CAST(date_a AS TIMESTAMP)", "hour(timestamp_a)",
    "CAST(double_a AS STRING)", "CAST(string_a AS INT)", "CAST(string_a AS DOUBLE)", "CAST(double_a AS BIGINT)",
    "date_add(date_a, int_b)", "date_sub(date_a, 1)", "int_a IS DISTINCT FROM int_b", "NULL = int_a", "int_a + NULL",
    "array(int_a, int_b)[int_c]", "array(string_a, string_b)[int_c]", "array(int_a, int_b)[1]",
    "get(array(int_a, int_b), int_c)", "get(array(date_a, date_b), 1)", "element_at(array(int_a, int_b), int_c)",
    "element_at(array(double_a, double_b), -2)", "try_element_at(array(int_a, int_b), tinyint_c % 3 + 4)",
    "size(array(int_a, int_b))", "array_size(array(string_a))", "cardinality(array(bigint_a, bigint_b, bigint_c))",
)  # fmt: skip
"""Expressions that were wrong once, or stopped a query."""


def column(kind: str, place: str) -> str:
    return f"{kind.lower().replace('(', '_').replace(',', '_').replace(')', '')}_{place}"


def table() -> pa.Table:
    """Every pair of values of a type meets in columns `a` and `b`; `c` is random."""
    rng = random.Random(5)
    columns = {}
    for kind, values in VALUES.items():
        count = len(values)
        cells = {
            "a": [values[row % count] for row in range(ROWS)],
            "b": [values[row // count % count] for row in range(ROWS)],
            "c": [rng.choice(values) for _ in range(ROWS)],
        }
        for place, given in cells.items():
            columns[column(kind, place)] = _array(given, kind)
    for name, (kind, values) in EXTRA.items():
        times = 1 if kind in ("STRING", "DOUBLE") else ROWS  # only arrays meet other columns; failures take long
        given = (values * times)[:ROWS]
        columns[name] = _array(given + [None] * (ROWS - len(given)), kind)
    return pa.table(columns)


def _array(given: list[object], kind: str) -> pa.Array:
    """Dates are told as days where Python has no date for them."""
    if kind == "DATE":
        days = [(each - dt.date(1970, 1, 1)).days if isinstance(each, dt.date) else each for each in given]
        return pa.array(days, pa.int32()).cast(pa.date32())
    return pa.array(given, to_arrow(kind))


def types() -> dict[str, str | None]:
    known: dict[str, str | None] = {column(kind, place): kind for kind in VALUES for place in "abc"}
    return known | {name: kind for name, (kind, _) in EXTRA.items()}


def all_signatures() -> Iterator[Signature]:
    """The table, and samples of the signatures that hold for decimals of every precision."""
    yield from TABLE.values()
    names = dict.fromkeys(name for name, _ in TABLE)
    for name in [*names, *(f"{word} {kind}" for word in ("cast", "try_cast") for kind in DECIMALS)]:
        for left in (*DECIMALS, "INT", "BIGINT"):
            found = find_signature(name, (left,))
            if found is not None and name not in ("CASE", "IF") and (left in DECIMALS or "DECIMAL" in name):
                yield found
            for right in (*DECIMALS, "INT", "BIGINT"):
                both = find_signature(name, (left, right))
                if both is not None and {left, right} & set(DECIMALS):
                    yield both


def written(signature: Signature, args: list[str]) -> str:
    """Spark SQL of a signature."""
    name = signature.name
    if name in _SHAPES:
        return _SHAPES[name].format(*args)
    if name.startswith(("cast ", "try_cast ")):
        word, _, target = name.partition(" ")
        return f"{word}({args[0]} AS {target})"
    if not name.replace("_", "").isalnum() or name in ("AND", "OR", "div", "LIKE", "RLIKE"):
        return f"({args[0]} {name} {args[1]})"
    return f"{name}({', '.join(args)})"


def uses(signature: Signature) -> Iterator[str]:
    """A signature over columns, and with literals in the place of one of them."""
    choices = [_arguments(signature, kind, place) for kind, place in zip(signature.args, cycle("abc"), strict=False)]
    first = [each[0] for each in choices]
    yield written(signature, first)
    for place, given in enumerate(choices[:4]):
        for text in given[1:]:
            if len(choices) > 1 or kind_of_literal(signature.args[place]):
                yield written(signature, [*first[:place], text, *first[place + 1 :]])


def kind_of_literal(kind: str) -> bool:
    return kind.startswith(LITERAL)


def _arguments(signature: Signature, kind: str, place: str) -> list[str]:
    if kind.startswith("'"):
        return [kind]
    if kind == "INTERVAL":
        return ["INTERVAL '90' MINUTE", "INTERVAL '1' DAY", "INTERVAL '-3' SECOND"]
    if kind_of_literal(kind):
        own = _PATTERNS.get(signature.name) or LITERALS[kind.removeprefix(LITERAL)]
        return list(own) or [f"CAST(2 AS {kind.removeprefix(LITERAL)})"]
    return [column(kind, place), *islice(LITERALS.get(kind, ()), 1)]


def nested(count: int, seed: int) -> Iterator[str]:
    """Two signatures, one inside the other, at random."""
    rng = random.Random(seed)
    table = list(TABLE.values())
    by_result: dict[str, list[Signature]] = {}
    for each in table:
        by_result.setdefault(each.result, []).append(each)
    for _ in range(count):
        outer = rng.choice(table)
        places = [at for at, kind in enumerate(outer.args) if kind in by_result]
        if not places:
            continue
        place = rng.choice(places)
        inner = rng.choice(by_result[outer.args[place]])
        args = [rng.choice(_arguments(outer, kind, "abc"[at % 3])) for at, kind in enumerate(outer.args)]
        within = [rng.choice(_arguments(inner, kind, "cba"[at % 3])) for at, kind in enumerate(inner.args)]
        args[place] = f"({written(inner, within)})"
        yield written(outer, args)


def corpus() -> list[str]:
    """All expressions, each once."""
    found = [text for signature in all_signatures() for text in uses(signature)]
    return list(dict.fromkeys([*found, *NAMED, *WRITTEN, *generated(), *nested(500, 11)]))
