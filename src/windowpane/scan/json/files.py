"""Reads JSON files with one record per line. Blank lines are skipped. Memory is bounded, however long a line is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.remote.input_file import InputFile
from windowpane.scan.codec import HEAD_BYTES, decode_values, too_long
from windowpane.scan.decoded import Decoded, bad, good, one_batch
from windowpane.scan.json.arrow_parser import SHALLOW, edges, parse
from windowpane.scan.json.codec import JsonCodec

CHUNK_BYTES = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_WHITE = b" \t\n\v\f\r"


def read_batches(source: InputFile, schema: pa.Schema, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The records of a file as `FileReader` takes them: bad ones have their text in CORRUPT."""
    for part in read_file(source, schema, max_bytes):
        yield part.columns.append_column(c.CORRUPT, part.bad)


def read_file(source: InputFile, schema: pa.Schema, max_bytes: int) -> Iterator[Decoded]:
    """The records of a file, decompressed by its extension, without a byte order mark."""
    with source.stream() as file:
        rest = _Rest(max_bytes)
        for chunk in _chunks(file, source.start):
            cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if cut:
                yield from _ended(rest, chunk[:cut], schema, max_bytes)
            rest.add(chunk[cut:])
        yield from _ended(rest, b"", schema, max_bytes)


def complete_lines(source: InputFile) -> Iterator[bytes]:
    """The text of a file, decompressed by its extension, in pieces that end with a line, however long it is."""
    held: list[bytes] = []
    with source.stream() as file:
        for chunk in _chunks(file, source.start):
            cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if cut:
                yield b"".join([*held, chunk[:cut]])
                held = []
            held.append(chunk[cut:])
    rest = b"".join(held)
    if rest:
        yield rest


def _chunks(file: pa.NativeFile, start: int) -> Iterator[bytes]:
    """The text in chunks, none of which splits a line break of two characters. `start`: where it begins in the file."""
    held = b""
    chunk = file.read(CHUNK_BYTES)
    chunk = chunk if start else chunk.removeprefix(_BOM)
    while chunk:
        chunk = held + chunk
        held = b"\r" if chunk.endswith(b"\r") else b""
        yield chunk.removesuffix(b"\r")
        chunk = file.read(CHUNK_BYTES)
    if held:
        yield held


@dataclass
class _Rest:
    """The beginning of a line that continues in the next chunk. Only the head of a line that is too long is kept."""

    max_bytes: int
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    head: bytes | None = None
    blank: bool = True

    def add(self, piece: bytes) -> None:
        self.blank = self.blank and not piece.strip(_WHITE)
        if self.head is None and piece:
            self.pieces.append(piece)
            self.size += len(piece)
            if self.size > max(self.max_bytes, HEAD_BYTES):
                self.head = b"".join(self.pieces)[:HEAD_BYTES]
                self.pieces.clear()

    def take(self) -> bytes:
        text = b"".join(self.pieces)
        self.pieces.clear()
        self.size, self.head, self.blank = 0, None, True
        return text


def _ended(rest: _Rest, lines: bytes, schema: pa.Schema, max_bytes: int) -> Iterator[Decoded]:
    """Complete lines; the first one may have begun in an earlier chunk."""
    if rest.head is not None:
        at = min((at for sign in (b"\n", b"\r") if (at := lines.find(sign)) >= 0), default=len(lines))
        if not rest.blank or lines[:at].strip(_WHITE):
            yield bad(pa.array([too_long(rest.head, max_bytes)]), schema)
        rest.take()
        text = lines[at:]
    else:
        text = rest.take() + lines
    if text:
        yield _lines(text, schema, max_bytes)


def _lines(text: bytes, schema: pa.Schema, max_bytes: int) -> Decoded:
    if _is_an_object_a_line(text) and _is_plain(text, max_bytes):
        table = parse(pa.py_buffer(text), schema)
        count = text.count(b"\n") + (not text.endswith(b"\n"))
        if table is not None and table.num_rows == count:
            return good(one_batch(table, schema))
    whole = pa.array([text], pa.large_binary())
    parts = pc.split_pattern_regex(whole, r"\r\n|\n|\r") if b"\r" in text else pc.split_pattern(whole, "\n")
    return decode_values(JsonCodec(), _without_blank(parts.values), schema, max_bytes)


def _is_plain(text: bytes, max_bytes: int) -> bool:
    """Whether no line is too long, or may be nested too deeply for Arrow."""
    breaks = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    longest = np.diff(breaks, prepend=-1, append=len(text)).max() - 1
    if longest > max_bytes:
        return False
    return bool(longest < SHALLOW or text.count(b"{") + text.count(b"[") - len(breaks) < SHALLOW)


def _is_an_object_a_line(text: bytes) -> bool:
    """Whether each line begins and ends with a brace: as many objects as lines are then one per line."""
    ends = text.endswith((b"}\n", b"}\r\n", b"}"))
    breaks = text.count(b"}\n{") + text.count(b"}\r\n{") + text.endswith(b"\n")
    return text.startswith(b"{") and ends and breaks == text.count(b"\n")


def _without_blank(records: pa.Array) -> pa.Array:
    blank = np.zeros(len(records), np.bool_)
    doubtful = np.flatnonzero(edges(records)[0] <= ord(" "))
    if not len(doubtful):
        return records
    texts = records.take(pa.array(doubtful)).to_pylist()
    blank[doubtful] = [not text.strip(_WHITE) for text in texts]
    return records.filter(pa.array(~blank))
