"""Central moments of values and of pairs from exact fractions: the oracle of variances, shapes and regressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa


def to_double(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def shape(power: int) -> Callable[..., Any]:
    """Skewness (3) or excess kurtosis (4) of values."""

    def oracle(values: list[Any], type_: pa.DataType, params: Sequence[Any]) -> Any:
        doubles = [float(value) for value in values]
        if not all(map(math.isfinite, doubles)):
            return math.nan
        exact = list(map(Fraction, doubles))
        middle = sum(exact, Fraction()) / len(exact)
        second, high = (sum(((value - middle) ** k for value in exact), Fraction()) / len(exact) for k in (2, power))
        return None if second == 0 else float(high / second**2) - 3 if power == 4 else cubic(high, second)

    return oracle


def cubic(high: Fraction, second: Fraction) -> float:
    return math.copysign(math.sqrt(float(high**2 / second**3)), high)


def oracle_pairs(function: str, pairs: list[tuple[Any, ...]]) -> Any:
    """Covariance and regression: `pairs` are (y, x), none NULL."""
    n = len(pairs)
    if function == "regr_count" or n == 0:
        return n if function == "regr_count" else None
    sides = ([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    ys, xs = ([Fraction(value) if math.isfinite(value) else None for value in map(float, side)] for side in sides)
    syy, sxx, sxy = products(ys, ys), products(xs, xs), products(ys, xs)
    match function:
        case "covar_samp" | "covar_pop":
            return None if n == 1 and function == "covar_samp" else ratio(sxy, n - (function == "covar_samp"))
        case "corr":
            return None if n == 1 or 0 in (sxx, syy) else correlation(syy, sxx, sxy)
        case "regr_r2":
            return None if sxx == 0 else 1.0 if syy == 0 else correlation(syy, sxx, sxy) ** 2
        case "regr_slope":
            return None if sxx == 0 else ratio(sxy, sxx)
        case "regr_intercept":
            return None if sxx == 0 else mean(ys) - ratio(sxy, sxx) * mean(xs)
    return ratio({"regr_sxx": sxx, "regr_syy": syy, "regr_sxy": sxy}[function], 1)


def mean(values: list[Fraction | None]) -> float:
    finite = [value for value in values if value is not None]
    return math.nan if len(finite) < len(values) else to_double(sum(finite, Fraction()) / len(finite))


def products(left: list[Fraction | None], right: list[Fraction | None]) -> Fraction | None:
    """The sum of products of deviations from the means; None if a value is not finite."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    if len(pairs) < len(left):
        return None
    means = [sum((pair[side] for pair in pairs), Fraction()) / len(pairs) for side in (0, 1)]
    return sum(((a - means[0]) * (b - means[1]) for a, b in pairs), Fraction())


def ratio(above: Fraction | None, below: Fraction | int | None) -> float:
    return math.nan if above is None or below is None else to_double(above / below)


def correlation(syy: Fraction | None, sxx: Fraction | None, sxy: Fraction | None) -> float:
    if syy is None or sxx is None or sxy is None:
        return math.nan
    return math.copysign(math.sqrt(sxy**2 / (sxx * syy)), sxy)
