"""Aggregates: columnar, group-indexed accumulators and the registry that names them."""

from windowpane.core.accumulators.base import (
    Accumulator,
    AggregateFunction,
    Evaluated,
    Inputs,
    RangedAccumulator,
)
from windowpane.core.accumulators.registry import build_accumulator, names, register, resolve, state_bytes

__all__ = [
    "Accumulator",
    "AggregateFunction",
    "Evaluated",
    "Inputs",
    "RangedAccumulator",
    "build_accumulator",
    "names",
    "register",
    "resolve",
    "state_bytes",
]
