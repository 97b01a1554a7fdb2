"""Literals of Spark SQL: which of them DuckDB reads in the same way."""

from __future__ import annotations

import datetime as dt
import re

from sqlglot import exp

from windowpane.sql.types import decimal

_INTERVAL_UNITS = ("SECOND", "SECONDS", "MINUTE", "MINUTES", "HOUR", "HOURS", "DAY", "DAYS")
_NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LIKE = re.compile(r"(?:[^\\]|\\[%_\\])*", re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?")


def number_literal(text: str) -> str | None:
    """Spark's type of a number that is written out."""
    if not _NUMBER.fullmatch(text):
        return None
    if "e" in text.lower():
        return "DOUBLE"
    if "." in text:
        whole, _, fraction = text.lstrip("-").partition(".")
        return decimal(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))
    value = int(text)
    if -(2**31) <= value < 2**31:
        return "INT"
    return "BIGINT" if -(2**63) <= value < 2**63 else decimal(len(text.lstrip("-")))


def like_pattern(pattern: str) -> bool:
    """Whether a pattern of LIKE escapes nothing but what can be escaped."""
    return _LIKE.fullmatch(pattern) is not None


def time_literal(text: str, target: str) -> str | None:
    """A date or time that is written out in full; anything shorter is read differently."""
    if not _TIME.fullmatch(text) or (target == "DATE" and len(text) != len("2024-01-01")):
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    if target == "DATE":
        return f"DATE '{moment.date().isoformat()}'"
    return f"TIMESTAMP '{moment.isoformat(sep=' ', timespec='microseconds')}'"


def duration_literal(node: exp.Interval) -> str | None:
    unit = node.args.get("unit")
    if not isinstance(node.this, exp.Literal) or not isinstance(unit, exp.Var) or unit.name not in _INTERVAL_UNITS:
        return None
    digits = 6 if unit.name.startswith("DAY") else 9  # no more than DuckDB and Spark can both add
    return (
        f"INTERVAL '{node.this.name}' {unit.name}" if re.fullmatch(rf"-?[0-9]{{1,{digits}}}", node.this.name) else None
    )
