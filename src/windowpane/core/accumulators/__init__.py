"""Aggregates: columnar, group-indexed accumulators and the registry that names them."""

from windowpane.core.accumulators.base import (
    Accumulator,
    AggregateFunction,
    Evaluated,
    Inputs,
    RangedAccumulator,
    WithinGroup,
)
from windowpane.core.accumulators.registry import (
    build_accumulator,
    keeps_set,
    names,
    register,
    resolve,
)
from windowpane.core.accumulators.user import UserAggregate

__all__ = [
    "Accumulator",
    "AggregateFunction",
    "Evaluated",
    "Inputs",
    "RangedAccumulator",
    "UserAggregate",
    "WithinGroup",
    "build_accumulator",
    "keeps_set",
    "names",
    "register",
    "resolve",
]
