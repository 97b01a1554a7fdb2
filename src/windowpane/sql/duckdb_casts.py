"""Spark's casts as DuckDB expressions. The two read text and round numbers differently, so most need more than CAST."""

from __future__ import annotations

from windowpane.sql.types import FRACTIONAL, INTEGRAL

DUCKDB_TYPES = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INTEGER", "BIGINT": "BIGINT",
    "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "STRING": "VARCHAR", "DATE": "DATE", "TIMESTAMP": "TIMESTAMPTZ",
    "TIMESTAMP_NTZ": "TIMESTAMP",
}  # fmt: skip

_BLANK = r"[\x00-\x20]*"
_WHOLE = rf"^{_BLANK}([+-]?[0-9]+){_BLANK}$"
_NUMBER = rf"^{_BLANK}([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?{_BLANK}$"
_SPECIAL = {"nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf",
            "-infinity": "-inf"}  # fmt: skip
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def cast(text: str, source: str | None, target: str, *, safe: bool) -> str | None:
    """`text` as `target`; None where the two engines differ or the type it comes from is unknown.

    `safe` is TRY_CAST. A plain cast of a bad value may give NULL here instead of an error: rows with one are found by
    the error guard and never evaluated.
    """
    word = "TRY_CAST" if safe else "CAST"
    if source == target:
        return text
    if source == "STRING":
        return _from_string(text, target)
    if source in INTEGRAL:
        return _from_integer(text, word, target)
    if source in FRACTIONAL or (source or "").startswith("DECIMAL"):
        return _from_fraction(text, word, source or "", target)
    if source == "BOOLEAN" and target in (*INTEGRAL, "DOUBLE", "STRING"):
        return f"{word}({text} AS {DUCKDB_TYPES[target]})"
    between_times = {("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE"), ("DATE", "TIMESTAMP_NTZ"), ("TIMESTAMP_NTZ", "DATE")}
    return f"{word}({text} AS {DUCKDB_TYPES[target]})" if (source, target) in between_times else None


def _from_string(text: str, target: str) -> str | None:
    if target in INTEGRAL:
        return f"TRY_CAST(nullif(regexp_extract({text}, '{_WHOLE}', 1), '') AS {DUCKDB_TYPES[target]})"
    trimmed = f"lower(trim({text}))"
    if target == "BOOLEAN":
        return f"CASE WHEN {trimmed} IN {_TRUE} THEN TRUE WHEN {trimmed} IN {_FALSE} THEN FALSE END"
    if target == "DOUBLE":
        cases = " ".join(f"WHEN '{name}' THEN '{value}'" for name, value in _SPECIAL.items())
        digits = f"nullif(regexp_extract({text}, '{_NUMBER}', 1), '')"
        return f"TRY_CAST(CASE {trimmed} {cases} ELSE {digits} END AS DOUBLE)"
    return None


def _from_integer(text: str, word: str, target: str) -> str | None:
    if target in (*INTEGRAL, "DOUBLE", "STRING"):
        return f"{word}({text} AS {DUCKDB_TYPES[target]})"
    if target.startswith("DECIMAL"):
        return f"{word}({text} AS {target})"
    return f"({text} <> 0)" if target == "BOOLEAN" else None


def _from_fraction(text: str, word: str, source: str, target: str) -> str | None:
    """Spark cuts fractions off where DuckDB rounds; floats as text or as decimals differ in their digits."""
    if target in INTEGRAL:
        return f"{word}(trunc({text}) AS {DUCKDB_TYPES[target]})"
    if target == "DOUBLE":
        return f"CAST({text} AS DOUBLE)"
    if target.startswith("DECIMAL") and source.startswith("DECIMAL"):
        return f"{word}({text} AS {target})"
    return None
