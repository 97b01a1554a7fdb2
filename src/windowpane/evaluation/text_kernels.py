"""Functions of text beyond ASCII, where DuckDB maps fewer characters than Spark. Only such text comes here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa


class Unproven(Exception):  # noqa: N818  # no error of the user
    """A value for which it is not certain what Spark makes of it."""


def mapped(values: pa.Array | pa.ChunkedArray, change: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """Each distinct value is changed once."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = whole.dictionary_encode()
    changed = [None if text is None else change(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(changed, kind).take(encoded.indices)


def upper(values: pa.Array) -> pa.Array:
    return mapped(values, str.upper, pa.string())


def lower(values: pa.Array) -> pa.Array:
    return mapped(values, str.lower, pa.string())


def reverse(values: pa.Array) -> pa.Array:
    return mapped(values, lambda text: text[::-1], pa.string())


def initcap(values: pa.Array) -> pa.Array:
    return mapped(values, lambda text: " ".join(map(_capitalized, text.split(" "))), pa.string())


def _capitalized(word: str) -> str:
    return word[:1].title() + word.lower()[len(word[:1].lower()) :]
