"""Short spellings of windows, emission and time that EXPLAIN and the summary share."""

from __future__ import annotations

from windowpane.core.windows import Count, Hopping, Session, Sliding, State, Tumbling, WindowSpec
from windowpane.sql.query import Column, Emit, OrderKey
from windowpane.time import format_duration


def describe_window(spec: WindowSpec) -> str:
    """`tumbling(10s)`, `hopping(1m, slide 5s)`, `sliding(10s, lookahead 5s)`, `count(10, step 2)`."""
    match spec:
        case Tumbling():
            return f"tumbling({format_duration(spec.size_us)}{_offset(spec.offset_us)})"
        case Hopping():
            sizes = f"{format_duration(spec.size_us)}, slide {format_duration(spec.slide_us)}"
            return f"hopping({sizes}{_offset(spec.offset_us)})"
        case Session():
            return f"session(gap {format_duration(spec.gap_us)})"
        case Sliding():
            ahead = "" if spec.lookahead_us is None else f", lookahead {format_duration(spec.lookahead_us)}"
            return f"sliding({format_duration(spec.lookback_us)}{ahead})"
        case Count():
            return f"count({spec.count}, step {spec.step})"
        case State():
            return "state(single)" if spec.single else "state"


def _offset(offset_us: int) -> str:
    return f", offset {format_duration(offset_us)}" if offset_us else ""


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
    """A duration that may be switched off."""
    return "off" if duration_us is None else format_duration(duration_us)


def describe_columns(columns: tuple[Column, ...] | None) -> tuple[str, ...]:
    """`price BIGINT` each; `(none)` and `(known to the source)` say why there are no names."""
    if columns is None:
        return ("(known to the source)",)
    return tuple(f"{column.name} {column.type}" for column in columns) or ("(none)",)
