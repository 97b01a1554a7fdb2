"""Spark functions as DuckDB expressions, only where both give the same value for every input."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

Template = str | Callable[..., str]

UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


def _floor_div(micros: str, by: int) -> str:
    return f"CAST(({micros} - ((({micros} % {by}) + {by}) % {by})) // {by} AS BIGINT)"


def _clipped(count: str) -> str:
    return f"greatest({count}, 0)"


def _substring(text: str, start: str, count: str | None = None) -> str:
    first = f"CASE WHEN {start} = 0 THEN 1 ELSE {start} END"
    return f"substring({text}, {first})" if count is None else f"substring({text}, {first}, {_clipped(count)})"


def _try(operator: str) -> Callable[[str, str], str]:
    return lambda left, right: f"TRY({left} {operator} {right})"


def _chain(name: str) -> Callable[..., str]:
    return lambda *args: f"{name}({', '.join(args)})"


FUNCTIONS: dict[str, dict[int, Template]] = {
    "upper": {1: "upper({0})"},
    "ucase": {1: "upper({0})"},
    "lower": {1: "lower({0})"},
    "lcase": {1: "lower({0})"},
    "length": {1: "CAST(length({0}) AS INTEGER)"},
    "char_length": {1: "CAST(length({0}) AS INTEGER)"},
    "reverse": {1: "reverse({0})"},
    "repeat": {2: "repeat({0}, {1})"},
    "replace": {3: "replace({0}, {1}, {2})"},
    "left": {2: lambda text, count: f"left({text}, {_clipped(count)})"},
    "right": {2: lambda text, count: f"right({text}, {_clipped(count)})"},
    "ltrim": {1: "ltrim({0}, ' ')"},
    "rtrim": {1: "rtrim({0}, ' ')"},
    "btrim": {1: "trim({0}, ' ')"},
    "substring": {2: _substring, 3: _substring},
    "substr": {2: _substring, 3: _substring},
    "instr": {2: "CAST(instr({0}, {1}) AS INTEGER)"},
    "locate": {2: "CAST(instr({1}, {0}) AS INTEGER)"},
    "startswith": {2: "starts_with({0}, {1})"},
    "endswith": {2: "ends_with({0}, {1})"},
    "contains": {2: "contains({0}, {1})"},
    "md5": {1: "md5({0})"},
    "ascii": {1: "CASE WHEN {0} = '' THEN 0 ELSE unicode({0}) END"},
    "isnull": {1: "({0} IS NULL)"},
    "isnotnull": {1: "({0} IS NOT NULL)"},
    "isnan": {1: "coalesce(isnan({0}), FALSE)"},
    "nullif": {2: "nullif({0}, {1})"},
    "nvl2": {3: "CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END"},
    "abs": {1: "abs({0})"},
    "negative": {1: "(0 - {0})"},
    "positive": {1: "{0}"},
    "sqrt": {1: "sqrt(CAST({0} AS DOUBLE))"},
    "floor": {1: "CAST(floor({0}) AS BIGINT)"},
    "ceil": {1: "CAST(ceil({0}) AS BIGINT)"},
    "ceiling": {1: "CAST(ceil({0}) AS BIGINT)"},
    "mod": {2: "({0} % {1})"},
    "pmod": {2: "((({0} % {1}) + {1}) % {1})"},
    "year": {1: "CAST(year({0}) AS INTEGER)"},
    "quarter": {1: "CAST(quarter({0}) AS INTEGER)"},
    "month": {1: "CAST(month({0}) AS INTEGER)"},
    "day": {1: "CAST(day({0}) AS INTEGER)"},
    "dayofmonth": {1: "CAST(day({0}) AS INTEGER)"},
    "dayofyear": {1: "CAST(dayofyear({0}) AS INTEGER)"},
    "dayofweek": {1: "CAST(dayofweek({0}) + 1 AS INTEGER)"},
    "weekday": {1: "CAST(isodow({0}) - 1 AS INTEGER)"},
    "weekofyear": {1: "CAST(weekofyear({0}) AS INTEGER)"},
    "hour": {1: "CAST(hour({0}) AS INTEGER)"},
    "minute": {1: "CAST(minute({0}) AS INTEGER)"},
    "second": {1: "CAST(second({0}) AS INTEGER)"},
    "unix_micros": {1: "epoch_us({0})"},
    "unix_millis": {1: lambda ts: _floor_div(f"epoch_us({ts})", 1_000)},
    "unix_seconds": {1: lambda ts: _floor_div(f"epoch_us({ts})", 1_000_000)},
    "timestamp_micros": {1: "make_timestamptz({0})"},
    "timestamp_millis": {1: "make_timestamptz(CAST({0} AS BIGINT) * 1000)"},
    "date_add": {2: "CAST(CAST({0} AS DATE) + CAST({1} AS INTEGER) AS DATE)"},
    "date_sub": {2: "CAST(CAST({0} AS DATE) - CAST({1} AS INTEGER) AS DATE)"},
    "datediff": {2: "CAST(CAST({0} AS DATE) - CAST({1} AS DATE) AS INTEGER)"},
    "size": {1: "CAST(len({0}) AS INTEGER)"},
    "array_size": {1: "CAST(len({0}) AS INTEGER)"},
    "get": {2: "CASE WHEN {1} >= 0 THEN list_extract({0}, {1} + 1) END"},
    "element_at": {2: "list_extract({0}, {1})"},
    "try_element_at": {2: "list_extract({0}, {1})"},
    "try_add": {2: _try("+")},
    "try_subtract": {2: _try("-")},
    "try_multiply": {2: _try("*")},
    "try_divide": {2: "(CAST({0} AS DOUBLE) / nullif(CAST({1} AS DOUBLE), 0))"},
    "try_mod": {2: "({0} % nullif({1}, 0))"},
}
"""By name and number of arguments; `{0}` is the first one's text."""

VARIADIC: dict[str, Callable[..., str]] = {
    "coalesce": _chain("coalesce"),
    "ifnull": _chain("coalesce"),
    "nvl": _chain("coalesce"),
    "greatest": _chain("greatest"),
    "least": _chain("least"),
    "concat": lambda *args: f"({' || '.join(args)})",
    "concat_ws": _chain("concat_ws"),
    "array": lambda *args: f"[{', '.join(args)}]",
}
"""Functions of any number of arguments."""

STRINGS_ONLY = ("concat", "concat_ws", "reverse", "upper", "lower", "length", "replace", "left", "right", "substring")
"""Functions whose other argument types (arrays, binaries, numbers shown as text) are not the same in both."""


def date_trunc(unit: exp.Expr, value: str) -> str | None:
    """`date_trunc('hour', ts)` for units that both cut alike."""
    known = isinstance(unit, exp.Literal) and unit.is_string and unit.name.lower() in UNITS
    return f"date_trunc('{unit.name.lower()}', {value})" if known else None
