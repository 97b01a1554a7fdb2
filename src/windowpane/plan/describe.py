"""Short spellings of emission and time that EXPLAIN and the summary share."""

from __future__ import annotations

from windowpane.plan.node import Properties, shown
from windowpane.sql.query import Column, Emit, Generator, OrderKey
from windowpane.time import format_duration


def describe_emit(emit: Emit) -> str:
    """`close`, `update`, `every 5s`."""
    return f"every {format_duration(emit.every_us)}" if emit.every_us is not None else emit.mode


def describe_order(key: OrderKey) -> str:
    """`_a0 DESC NULLS LAST`, as Spark writes it; its default place of NULLs is left out."""
    direction = " DESC" if key.descending else ""
    default = key.nulls_first != key.descending
    nulls = "" if default else f" NULLS {'FIRST' if key.nulls_first else 'LAST'}"
    return f"{key.expr.text}{direction}{nulls}"


def describe_limit(duration_us: int | None) -> str:
    """A duration, or `off`."""
    return "off" if duration_us is None else format_duration(duration_us)


def describe_generator(generator: Generator) -> Properties:
    """The clause, and the columns that it adds."""
    return shown(generate=generator.text, columns=describe_columns(generator.columns))


def describe_columns(columns: tuple[Column, ...] | None) -> tuple[str, ...]:
    """`price BIGINT` each; `(none)` and `(known to the source)` say why there are no names."""
    if columns is None:
        return ("(known to the source)",)
    return tuple(f"{column.name} {column.type}" for column in columns) or ("(none)",)


def describe_interval(interval_us: tuple[int, int]) -> str:
    """For EXPLAIN.

    >>> describe_interval((-5_000_000, 0))
    'from 5s before to 0s after'
    """
    low_us, high_us = interval_us
    ends = [f"{format_duration(abs(us))} {'before' if us < 0 else 'after'}" for us in (low_us, high_us)]
    return f"from {ends[0]} to {ends[1]}"
