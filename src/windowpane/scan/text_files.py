"""Reads text files: each line is a row with one column, as Spark's text reader gives it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.remote.input_file import InputFile
from windowpane.scan.json.files import complete_lines


def read_batches(source: InputFile, schema: pa.Schema, max_bytes: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """Lines of a file, decompressed by its extension, without a byte order mark. Lines may be empty.

    Bytes that are not UTF-8 are replaced. The first column of `schema` is the text; folders name the others.
    """
    name = schema.names[0]
    for text in complete_lines(source):
        whole = pa.array([text], pa.large_binary())
        parts = pc.split_pattern_regex(whole, r"\r\n|\n|\r") if b"\r" in text else pc.split_pattern(whole, "\n")
        lines = parts.values
        if text.endswith((b"\n", b"\r")):
            lines = lines.slice(0, len(lines) - 1)
        yield pa.RecordBatch.from_arrays([_texts(lines)], [name])


def _texts(lines: pa.Array) -> pa.Array:
    try:
        return lines.cast(pa.large_string()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([line.decode("utf-8", "replace") for line in lines.to_pylist()], pa.string())
