"""Aggregates computed from all rows of a group at once, exactly, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import reduce
from operator import xor
from typing import Any

from tests.oracle.spec import Aggregate, Values

ULPS = 16 * 2.0**-53


@dataclass(frozen=True)
class Near:
    """A float that may differ by a few ulps of the largest number that went into it."""

    value: float
    tolerance: float


class Overflow:
    """The result does not fit its type."""


def comparable(value: Any) -> Any:
    """A value that equals another's when SQL says they are the same: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def compute(call: Aggregate, rows: Sequence[Values]) -> Any:
    """The call over rows that are in (event time, arrival) order. NULLs are skipped."""
    rows = [row for row in rows if call.takes(row)]
    if call.column is None:
        return len(rows)
    values = [value for row in rows if (value := call.argument(row)) is not None]
    if call.distinct:
        first = {comparable(value): value for value in reversed(values)}
        values = [first.pop(comparable(value)) for value in values if comparable(value) in first]
    match call.function:
        case "count":
            return len(values)
        case "first":
            return values[0] if values else None
        case "last":
            return values[-1] if values else None
        case "collect_list":
            return values
    return _ONE_OR_MORE[call.function](values) if values else None


def _sum(values: list[Any]) -> Any:
    if isinstance(values[0], int):
        total = sum(values)
        return total if -(2**63) <= total < 2**63 else Overflow()
    if isinstance(values[0], Decimal):
        return sum(values, Decimal(0))
    return Near(_float_sum(values), sum(abs(value) for value in values) * ULPS)


def _float_sum(values: list[float]) -> float:
    if all(map(math.isfinite, values)):
        return math.fsum(values)
    return sum(values)


def _avg(values: list[Any]) -> Any:
    if isinstance(values[0], Decimal):
        return (sum(values, Decimal(0)) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    if isinstance(values[0], int):
        exact = float(Fraction(sum(values), len(values)))
        return Near(exact, sum(map(abs, values)) / len(values) * ULPS)
    return Near(_float_sum(values) / len(values), sum(map(abs, values)) * ULPS / len(values))


def _stddev(values: list[Any]) -> Any:
    if len(values) < 2:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    if any(math.isinf(float(value) * float(value)) for value in values):
        return math.inf
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in exact) / (len(exact) - 1))
    return Near(deviation, max(abs(float(value)) for value in values) * ULPS)


def _rank(value: Any) -> Any:
    """NaN is larger than any number."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


_ONE_OR_MORE: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "stddev": _stddev,
    "min": lambda values: min(values, key=_rank),
    "max": lambda values: max(values, key=_rank),
    "bit_xor": lambda values: reduce(xor, values),
    "mode": lambda values: min(values, key=lambda value: (-values.count(value), value)),
    "listagg": "".join,
}
