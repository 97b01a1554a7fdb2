"""What one row of the evaluator's table says: a function or an operator for exactly these types of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from windowpane.sql.types import INTEGRAL, field_types, parts_of

LITERAL = "#"
"""Before a type: the argument must be written out."""
NULL = "NULL"
"""The type of a bare NULL, which takes on any other."""

DUCKDB_TYPES = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INTEGER", "BIGINT": "BIGINT",
    "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "STRING": "VARCHAR", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP", NULL: '"NULL"',
}  # fmt: skip
"""DuckDB's type of values. An instant is its time in UTC there: what DuckDB does with time zones is never used."""

SCALARS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ",
)  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """One accepted use of a function or operator, with Spark's result type and DuckDB's text (`{0}`: an argument).

    The template raises an error for exactly the values for which Spark (ANSI mode) does. `fails`: there are such
    values. `lazy`: not every argument is evaluated, so arguments that can fail are only taken where Spark's guard
    knows the same laziness. `zoned`: the value depends on the session's time zone, which is taken to be UTC.
    """

    name: str
    args: tuple[str, ...]
    result: str
    template: str
    fails: bool = False
    zoned: bool = False
    ansi: bool = False
    """The value is another one without ANSI mode."""
    slow: bool = False
    """Evaluated value by value, in Python: right for the harness, too slow for the columnar scan."""
    safe_args: bool = False
    """Refused where an argument can fail: DuckDB would evaluate it where Spark does not, or the other way round."""


Maker: TypeAlias = Callable[[str, tuple[str, ...]], Signature | None]
"""Makes the signature of a function for these arguments, some of which are as they are written."""


def duckdb_type(name: str) -> str:
    """DuckDB's name of a Spark type."""
    if name.startswith("ARRAY<"):
        return f"{duckdb_type(parts_of(name)[0])}[]"
    if name.startswith("STRUCT<"):
        fields = (f"{_quoted(field)} {duckdb_type(kind)}" for field, kind in field_types(name).items())
        return f"STRUCT({', '.join(fields)})"
    return DUCKDB_TYPES.get(name, name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def cast_to(text: str, source: str, target: str) -> str:
    """A widening that both engines do alike."""
    return text if source == target else f"CAST({text} AS {duckdb_type(target)})"


def wider(left: str, right: str) -> str:
    """The wider of two integer types."""
    return INTEGRAL[max(INTEGRAL.index(left), INTEGRAL.index(right))]


def pairs(kinds: Iterable[str]) -> Iterator[tuple[str, str]]:
    listed = list(kinds)
    return ((left, right) for left in listed for right in listed)


def raising(target: str, reason: str = "division_by_zero") -> str:
    """Text that fails when it is evaluated; under TRY, which DuckDB's error() refuses."""
    return (
        f"CAST(CAST('{reason}' AS UUID) AS {duckdb_type(target)})"
        if target == "STRING"
        else (f"CAST('{reason}' AS {duckdb_type(target)})")
    )


def written_text(text: str) -> str:
    """A text in a template."""
    return "'" + text.replace("'", "''").replace("{", "{{").replace("}", "}}") + "'"


def text_of(arg: str) -> str | None:
    """The text of an argument that is written out."""
    return arg[1:-1] if arg.startswith("'") else None


def number_of(arg: str) -> int | None:
    return int(arg[1:]) if arg.startswith("=") else None


def let(name: str, value: str, text: str) -> str:
    """`text` in which `name` stands for `value`, which is written and evaluated once."""
    return f"list_transform([{value}], lambda {name}: {text})[1]"
