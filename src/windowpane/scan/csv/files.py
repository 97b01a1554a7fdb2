"""Reads CSV files, a record per line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.remote.input_file import InputFile
from windowpane.scan.csv.dialect import dialect_of
from windowpane.scan.csv.lines import CsvLines, texts_of, without_blank
from windowpane.scan.decoded import Decoded
from windowpane.scan.files import folder_values
from windowpane.scan.json.files import complete_lines

_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|$)")
_SPACE = bytes(range(33))


@dataclass(frozen=True)
class CsvFiles:
    """Reads CSV files. A line has all declared columns, except those that folders name. Pickled."""

    lines: CsvLines
    folders_of_path: int | None = 0
    """As of `FileReader`."""

    @classmethod
    def of(cls, declared: Sequence[str], options: Mapping[str, str], folders_of_path: int | None = 0) -> CsvFiles:
        """`options`: those of Spark's reader; ValueError if workers do not read such files."""
        return cls(CsvLines(tuple(declared), dialect_of(options)), folders_of_path)

    def __call__(self, source: InputFile, schema: pa.Schema, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """As `ReadBatches`: the text of lines that cannot be read is in CORRUPT."""
        for part in self.read(source, schema):
            yield part.columns.append_column(c.CORRUPT, part.bad)

    def read(self, source: InputFile, schema: pa.Schema) -> Iterator[Decoded]:
        """The records of a file, decompressed by its extension, without byte order mark, header and blank lines."""
        folders = {} if self.folders_of_path is None else folder_values(source.path, self.folders_of_path)
        lines = self.lines.without(folders)
        own = pa.schema([field for field in schema if field.name.lower() not in folders])
        header = self.lines.dialect.header and source.start == 0
        for piece in complete_lines(source):
            text = piece
            while header and text:
                line, text = _first_line(text)
                header = not line.strip(_SPACE)
            decoded = lines.decode_text(text, own) if text else None
            if decoded is None:
                decoded = lines.decode_lines(without_blank(texts_of(_lines(text))), own)
            if len(decoded.bad):
                yield decoded


def _first_line(text: bytes) -> tuple[bytes, bytes]:
    match = _LINE.match(text)
    assert match is not None
    return match[1], text[match.end() :]


def _lines(text: bytes) -> pa.Array:
    whole = pa.array([text], pa.large_binary())
    parts = pc.split_pattern_regex(whole, r"\r\n|\n|\r") if b"\r" in text else pc.split_pattern(whole, "\n")
    return parts.values
