"""The names of functions that a query may call, so that a misspelt one is found without Spark."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from sqlglot import exp

from windowpane.core import accumulators, user_functions
from windowpane.core.user_functions import UserFunction
from windowpane.core.windows import KINDS
from windowpane.errors import SqlError
from windowpane.sql.functions import UNIT_FUNCTIONS
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.window_functions import FLINK_AUXILIARY, signature

FILE = Path(__file__).with_name("spark_functions.txt")
"""Spark's own functions, one name a line. `scripts/spark_functions.py` writes it, and a Spark test compares it."""

HasFunction = Callable[[str], bool]


def spark_functions(spark: Any) -> list[str]:
    """The functions of a Spark session that are called by a name, without those that a user registered."""
    rows = spark.sql("SHOW SYSTEM FUNCTIONS").collect()
    return sorted({str(row[0]) for row in rows if str(row[0]).isidentifier()})


@cache
def _listed() -> frozenset[str]:
    """Spark's functions."""
    return frozenset(FILE.read_text(encoding="utf-8").split())


def known_functions() -> frozenset[str]:
    """Spark's functions, aggregates and windows, and the spellings that are refused with a message of their own.

    Users may register aggregates at any time, so these are looked up anew.
    """
    windows = [f"{kind}window" for kind in KINDS]
    return _listed().union(accumulators.names(), windows, FLINK_AUXILIARY, UNIT_FUNCTIONS)


def refuse_unknown_functions(source: SourceText, trees: Iterable[exp.Expr], registered: HasFunction) -> None:
    """Refuse the first call of a function that neither Spark nor the user has."""
    functions = known_functions()
    for tree in trees:
        for call in tree.find_all(exp.Anonymous):
            # Spark alone knows the functions of its catalogs: `db.f(x)`.
            name = call.name.lower() if isinstance(call.this, exp.Identifier) else str(call.this).lower()
            own = user_functions.find(name)
            if own is not None:
                _check_arguments(source, call, own)
            known = own is not None or isinstance(call.parent, exp.Dot)
            known = known or name in functions or signature(name) is not None
            if not known and not registered(name):
                raise _unknown(source, call, name)


def _check_arguments(source: SourceText, call: exp.Expr, function: UserFunction) -> None:
    count = len(call.expressions)
    if not function.takes(count):
        message = f"`{function.name}` cannot be called with {count} argument{'' if count == 1 else 's'}"
        raise source.error("FUNCTION_ARGUMENTS", message, f"it is {function.describe()}", at=call)


def _unknown(source: SourceText, call: exp.Expr, name: str) -> SqlError:
    own = (function.name.lower() for function in user_functions.registered())
    close = difflib.get_close_matches(name, sorted(known_functions().union(own)), n=3, cutoff=0.6)
    meant = f"nearest: {', '.join(close)}; " if close else ""
    hint = f"{meant}declare a function of your own as [functions.{name}], or list it as `functions` in [spark]"
    return source.error("UNKNOWN_FUNCTION", f"there is no function `{name}`", hint, at=call)
