"""Users' scalar functions by name, for the binder, the harness and Spark. Aggregates have a registry of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class UserFunction:
    """A Python function that SQL can call."""

    name: str
    call: Callable[..., Any]
    returns: str
    """Spark's name of the type of its values."""
    arrow_type: pa.DataType
    """The same in Arrow."""
    of_columns: bool = False
    """It takes and gives Arrow columns instead of the values of one row."""

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        try:
            inspect.signature(self.call).bind(*([None] * count))
        except TypeError:
            return False
        except ValueError:  # some functions written in C have no signature
            return True
        return True

    def describe(self) -> str:
        """`score(price, bidder)`, as far as Python knows."""
        try:
            return f"{self.name}{inspect.signature(self.call)}"
        except ValueError:
            return f"{self.name}(…)"


_functions: dict[str, UserFunction] = {}


def register(function: UserFunction) -> None:
    """Make a function known under its name, in place of an earlier one of that name."""
    _functions[function.name.lower()] = function


def unregister(name: str) -> None:
    """Forget a function."""
    _functions.pop(name.lower(), None)


def find(name: str) -> UserFunction | None:
    """The function of that name, in any letter case."""
    return _functions.get(name.lower())


def registered() -> list[UserFunction]:
    """All functions."""
    return list(_functions.values())


def duckdb_name(name: str, types: Sequence[tuple[str, str]], result: str) -> str:
    """What the harness calls a function in DuckDB: `types` are Spark's and DuckDB's names of each argument's type."""
    listed = ";".join(f"{spark}:{own}" for spark, own in types)
    return f'"user {name}({listed}) {result}"'
