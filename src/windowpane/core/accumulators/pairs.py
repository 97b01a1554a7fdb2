"""Covariance, correlation and linear regression over pairs of numbers; a pair with a NULL is skipped.

State: the number of pairs, and the exact sums that the function needs, so that merging loses nothing. `a` is the first
argument and `b` the second: regr_* functions have y as `a` and x as `b`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.accumulators.base import Evaluated, Inputs, RangedAccumulator
from windowpane.core.accumulators.central_moments import deviation_products, fold_products, range_products
from windowpane.core.accumulators.count import CountAccumulator
from windowpane.core.accumulators.floats import FloatSumAccumulator, as_doubles, fold_doubles, fold_ranges, total_of
from windowpane.core.accumulators.kernels.columns import Bools, Float64s, Int64s, all_valid, physical, to_arrow
from windowpane.core.accumulators.sums import build_avg
from windowpane.core.accumulators.types import NUMERIC, is_numeric, require
from windowpane.core.groups import Groups


@dataclass(frozen=True)
class Moments:
    """The states of many groups, read as numbers."""

    n: Float64s
    sums: Mapping[str, Sequence[pa.Array]]

    def mean(self, term: str) -> Float64s:
        return total_of(self.sums[term]) / self.n

    def spread(self, term: str) -> Float64s:
        """The sum, times n, of squared deviations (`aa`, `bb`) or of their products (`ab`)."""
        return deviation_products(self.n, self.sums[term[0]], self.sums[term[1]], self.sums[term])


Result: TypeAlias = tuple[Float64s, Bools]
"""Values, and where they are not NULL."""


def _covar_samp(of: Moments) -> Result:
    return of.spread("ab") / (of.n * (of.n - 1)), of.n > 1


def _covar_pop(of: Moments) -> Result:
    return of.spread("ab") / (of.n * of.n), of.n > 0


def _corr(of: Moments) -> Result:
    height, width = of.spread("aa"), of.spread("bb")
    values = np.clip(of.spread("ab") / (np.sqrt(height) * np.sqrt(width)), -1.0, 1.0)
    return values, (of.n > 1) & (height != 0) & (width != 0)


def _regr_slope(of: Moments) -> Result:
    width = of.spread("bb")
    return of.spread("ab") / width, (of.n > 0) & (width != 0)


def _regr_intercept(of: Moments) -> Result:
    slope, known = _regr_slope(of)
    return of.mean("a") - slope * of.mean("b"), known


def _regr_r2(of: Moments) -> Result:
    flat = of.spread("aa") == 0
    return np.where(flat, 1.0, _corr(of)[0] ** 2), (of.n > 0) & (of.spread("bb") != 0)


def _deviations(term: str) -> Callable[[Moments], Result]:
    return lambda of: (of.spread(term) / of.n, of.n > 0)


_FUNCTIONS: Mapping[str, tuple[tuple[str, ...], Callable[[Moments], Result]]] = {
    "covar_samp": (("a", "b", "ab"), _covar_samp),
    "covar_pop": (("a", "b", "ab"), _covar_pop),
    "corr": (("a", "b", "aa", "bb", "ab"), _corr),
    "regr_sxx": (("b", "bb"), _deviations("bb")),
    "regr_syy": (("a", "aa"), _deviations("aa")),
    "regr_sxy": (("a", "b", "ab"), _deviations("ab")),
    "regr_slope": (("a", "b", "bb", "ab"), _regr_slope),
    "regr_intercept": (("a", "b", "bb", "ab"), _regr_intercept),
    "regr_r2": (("a", "b", "aa", "bb", "ab"), _regr_r2),
}
OF_ONE = ("regr_sxx", "regr_syy")
"""Functions of one side of the pairs. They take no DISTINCT: in Spark it applies to that side alone."""
OF_BOTH = tuple(name for name in _FUNCTIONS if name not in OF_ONE)


class PairAccumulator:
    """One function of pairs."""

    output_type = pa.float64()

    def __init__(self, name: str) -> None:
        self._terms, self._result = _FUNCTIONS[name]
        self._count, self._sum = CountAccumulator(), FloatSumAccumulator()
        self.state_types: Sequence[pa.DataType] = (pa.int64(), *(tuple(self._sum.state_types) * len(self._terms)))
        self.arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        columns, valid = dict(zip("ab", map(as_doubles, inputs.args), strict=True)), all_valid(inputs.args)
        if valid is not None:
            columns = {name: column[valid] for name, column in columns.items()}
            groups = Groups(groups.ids[valid], groups.count)
        states = [pa.array(groups.sizes)]
        for term in self._terms:
            first, *second = (columns[name] for name in term)
            states += fold_products(first, second[0], groups) if second else fold_doubles(first, groups)
        return states

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        merged = self._count.merge(states[:1], groups)
        for sums in self._sums(states).values():
            merged += self._sum.merge(sums, groups)
        return merged

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        columns, valid = dict(zip("ab", map(as_doubles, inputs.args), strict=True)), all_valid(inputs.args)
        if valid is not None:
            columns = {name: np.where(valid, column, 0.0) for name, column in columns.items()}
        states = self._count.over_ranges(inputs, low, high)
        for term in self._terms:
            first, *second = (columns[name] for name in term)
            if second:
                states += range_products(first, second[0], valid, low, high)
            else:
                states += fold_ranges([first], valid, low, high)
        return states

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values, known = self._result(Moments(physical(states[0]).astype(np.float64), self._sums(states)))
        return Evaluated(to_arrow(values, pa.float64(), known))

    def _sums(self, states: Sequence[pa.Array]) -> dict[str, Sequence[pa.Array]]:
        return {term: states[1 + 3 * place : 4 + 3 * place] for place, term in enumerate(self._terms)}


class PairMeanAccumulator:
    """avg of one argument over the pairs: its result has the type that avg has."""

    def __init__(self, mean: RangedAccumulator, side: int) -> None:
        self._mean, self._side = mean, side
        self.output_type = mean.output_type
        self.state_types: Sequence[pa.DataType] = mean.state_types
        self.arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        return self._mean.update(self._paired(inputs), groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._mean.merge(states, groups)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return self._mean.evaluate(states)

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        return self._mean.over_ranges(self._paired(inputs), low, high)

    def _paired(self, inputs: Inputs) -> Inputs:
        """The argument, NULL where either is."""
        column, valid = inputs.args[self._side], all_valid(inputs.args)
        if valid is not None:
            column = pc.if_else(pa.array(valid), column, None)
        return Inputs([column], inputs.ts, inputs.arrival)


def build_regr_avgx(types: Sequence[pa.DataType], params: Sequence[object]) -> PairMeanAccumulator:
    return _mean_of("regr_avgx", 1, types, params)


def build_regr_avgy(types: Sequence[pa.DataType], params: Sequence[object]) -> PairMeanAccumulator:
    return _mean_of("regr_avgy", 0, types, params)


def _mean_of(name: str, side: int, types: Sequence[pa.DataType], params: Sequence[object]) -> PairMeanAccumulator:
    for type_ in types:
        require(name, type_, is_numeric, NUMERIC)
    return PairMeanAccumulator(build_avg([types[side]], params), side)


def pair_builder(name: str) -> Callable[[Sequence[pa.DataType], Sequence[object]], PairAccumulator]:
    def build(types: Sequence[pa.DataType], params: Sequence[object]) -> PairAccumulator:  # noqa: ARG001
        for type_ in types:
            require(name, type_, is_numeric, NUMERIC)
        return PairAccumulator(name)

    return build
