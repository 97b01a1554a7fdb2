"""Functions of text beyond ASCII, where DuckDB maps fewer characters than Spark. Only such text comes here."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def _mapped(values: pa.Array | pa.ChunkedArray, change: Callable[[str], str]) -> pa.Array:
    """Each distinct value is changed once."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = whole.dictionary_encode()
    changed = [None if text is None else change(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(changed, pa.string()).take(encoded.indices)


def upper(values: pa.Array) -> pa.Array:
    return _mapped(values, str.upper)


def lower(values: pa.Array) -> pa.Array:
    return _mapped(values, str.lower)


def reverse(values: pa.Array) -> pa.Array:
    return _mapped(values, lambda text: text[::-1])


KERNELS: dict[str, Callable[[pa.Array], pa.Array]] = {"upper": upper, "lower": lower, "reverse": reverse}
"""By the name of the function."""
