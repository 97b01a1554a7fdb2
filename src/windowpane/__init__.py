"""Windowed streaming SQL for Spark in which every row is accounted for. Names are loaded when they are first used."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windowpane.connectors.sinks import CallableSink, MemorySink, Sink
    from windowpane.core.accumulators import UserAggregate as Aggregate
    from windowpane.core.accumulators import register as register_aggregate
    from windowpane.errors import WindowpaneError
    from windowpane.plan.eventtime import types as eventtime
    from windowpane.plan.functions import register_function
    from windowpane.runtime.dataframe import sql
    from windowpane.runtime.pipeline import Pipeline
    from windowpane.testing import Harness

__version__ = "0.1.0"
__all__ = [
    "Aggregate",
    "CallableSink",
    "Harness",
    "MemorySink",
    "Pipeline",
    "Sink",
    "WindowpaneError",
    "eventtime",
    "register_aggregate",
    "register_function",
    "sql",
]
_HOMES: dict[str, tuple[str, str | None]] = {
    "Aggregate": ("windowpane.core.accumulators", "UserAggregate"),
    "CallableSink": ("windowpane.connectors.sinks", "CallableSink"),
    "Harness": ("windowpane.testing", "Harness"),
    "MemorySink": ("windowpane.connectors.sinks", "MemorySink"),
    "Pipeline": ("windowpane.runtime.pipeline", "Pipeline"),
    "Sink": ("windowpane.connectors.sinks", "Sink"),
    "WindowpaneError": ("windowpane.errors", "WindowpaneError"),
    "eventtime": ("windowpane.plan.eventtime.types", None),
    "register_aggregate": ("windowpane.core.accumulators", "register"),
    "register_function": ("windowpane.plan.functions", "register_function"),
}
"""Where each name lives, None for a module as such."""

if not TYPE_CHECKING:  # type checkers see the imports above, and so find names that are not there

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, attribute = _HOMES[name]
        home = import_module(module)
        return home if attribute is None else getattr(home, attribute)

    class _Package(ModuleType):
        """`windowpane.sql` is the function for users, though a package of ours has the same name."""

        @property
        def sql(self) -> object:
            return import_module("windowpane.runtime.dataframe").sql

        @sql.setter
        def sql(self, package: ModuleType) -> None:
            """The import system binds a package here; `from windowpane.sql import …` finds it without that."""

    sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
