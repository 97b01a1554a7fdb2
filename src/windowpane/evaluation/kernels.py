"""The functions of our own that DuckDB calls, `spark_…`, with their types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from windowpane.errors import SqlError
from windowpane.evaluation import json_kernels, number_kernels, text_kernels, time_kernels
from windowpane.evaluation.text_kernels import Unproven

Kernel = Callable[..., pa.Array]
_TEXT = "VARCHAR"
KERNELS: dict[str, tuple[Kernel, tuple[str, ...], str]] = {
    "upper": (text_kernels.upper, (_TEXT,), _TEXT),
    "lower": (text_kernels.lower, (_TEXT,), _TEXT),
    "reverse": (text_kernels.reverse, (_TEXT,), _TEXT),
    "initcap": (text_kernels.initcap, (_TEXT,), _TEXT),
    "round": (number_kernels.round_half_up, ("DOUBLE", "INTEGER"), "DOUBLE"),
    "bround": (number_kernels.round_half_even, ("DOUBLE", "INTEGER"), "DOUBLE"),
    "timestamp": (time_kernels.timestamp, (_TEXT,), "BIGINT"),
    "get_json_object": (json_kernels.get_json_object, (_TEXT, _TEXT), _TEXT),
}
_unproven: list[str] = []


def register(database: duckdb.DuckDBPyConnection) -> None:
    for name, (kernel, given, result) in KERNELS.items():
        database.create_function(
            f"spark_{name}", _noted(kernel), list(given), result, type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )  # fmt: skip


def _noted(kernel: Kernel) -> Kernel:
    """DuckDB keeps no exception as it is, and hides those under TRY."""

    @wraps(kernel)
    def called(*columns: pa.Array | pa.ChunkedArray) -> pa.Array:
        try:
            return kernel(*(each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in columns))
        except Unproven as fault:
            _unproven.append(str(fault))
            raise

    return called


@contextmanager
def refusing() -> Iterator[None]:
    """SqlError UNSUPPORTED_IN_HARNESS where a value was met of which it is not certain what Spark makes of it."""
    _unproven.clear()
    try:
        yield
    finally:
        found = _unproven[:1]
        _unproven.clear()
        if found:
            raise SqlError(
                "UNSUPPORTED_IN_HARNESS", f"{found[0]} cannot be evaluated without Spark", "run this test on Spark"
            )
