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
from windowpane.core.accumulators.user import UserAggregate, as_function, user_classes

__all__ = [
    "Accumulator",
    "AggregateFunction",
    "Evaluated",
    "Inputs",
    "RangedAccumulator",
    "UserAggregate",
    "WithinGroup",
    "as_function",
    "build_accumulator",
    "keeps_set",
    "names",
    "register",
    "resolve",
    "user_classes",
]
