"""Decodes lines of CSV files to columns. A line with another number of fields than declared columns is bad."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from windowpane.scan.csv.conversions import converted
from windowpane.scan.csv.dialect import NONE, Dialect
from windowpane.scan.csv.tokenizing import fields_of
from windowpane.scan.decoded import Decoded, Positions

_SPACE = "".join(map(chr, range(33)))
"""What Java's trim removes."""
_BARE, _QUOTED, _OTHER = 0, 1, 2
Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CsvLines:
    """Lines with these columns, in this order."""

    columns: tuple[str, ...]
    dialect: Dialect

    def without(self, folders: Collection[str]) -> CsvLines:
        """Lines of a file whose folders name some of the columns. `folders`: in lower case."""
        if not folders:
            return self
        return CsvLines(tuple(name for name in self.columns if name.lower() not in folders), self.dialect)

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        """As `Codec.decode`: values are binary."""
        return self.decode_lines(texts_of(values), schema)

    def decode_text(self, text: bytes, schema: pa.Schema) -> Decoded | None:
        """Whole lines that are all good and have no quotes, in one go; None if some may be others."""
        if self.dialect.quote.encode() in text or self.dialect.separator <= " " or len(self.columns) == 1:
            return None
        wanted = [name for name in self.columns if name in schema.names]
        try:
            found = self._parsed(pa.py_buffer(text), wanted or [self.columns[0]], quoted=False)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        decoded = self._converted(found, schema)
        return decoded if decoded.bad.null_count == len(decoded.bad) else None

    def decode_lines(self, lines: pa.Array, schema: pa.Schema) -> Decoded:
        """Lines as text, none of them blank. Bad ones keep the fields that can be read, as Spark's do."""
        wanted = [name for name in self.columns if name in schema.names]
        kinds, parts = self._kinds(lines), list[tuple[Positions, list[pa.Array]]]()
        for kind, read in ((_BARE, self._split), (_QUOTED, self._quoted)):
            at = np.flatnonzero(kinds == kind)
            if len(at):
                fits, columns = read(lines.take(pa.array(at)), wanted)
                parts.append((at[fits], columns))
                kinds[at[~fits]] = _OTHER
        others = np.flatnonzero(kinds == _OTHER)
        fits, columns = self._tokenized(lines.take(pa.array(others, pa.int64())), wanted)
        parts.append((others, columns))
        order = pa.array(np.argsort(np.concatenate([at for at, _ in parts])))
        fields = {
            name: pa.concat_arrays([columns[number] for _, columns in parts]).take(order)
            for number, name in enumerate(wanted)
        }
        found, bad = self._converted_fields(fields, len(lines), schema)
        missed = np.zeros(len(lines), np.bool_)
        missed[others[~fits]] = True
        return Decoded(found, pc.if_else(pc.or_(bad, pa.array(missed)), lines, pa.scalar(None, pa.string())))

    def _kinds(self, lines: pa.Array) -> Positions:
        """Whether lines are without quotes, with plain ones, or with others."""
        if self.dialect.quote == NONE:
            return np.full(len(lines), _BARE)
        quotes = pc.match_substring(lines, self.dialect.quote)
        if not pc.any(quotes, min_count=0).as_py():
            return np.full(len(lines), _BARE)
        plain = pc.match_substring_regex(lines, self._plain)
        return np.where(np.asarray(quotes), np.where(np.asarray(plain), _QUOTED, _OTHER), _BARE)

    @cached_property
    def _plain(self) -> str:
        """Lines in which each quote encloses a field that has neither quotes nor escapes inside."""
        quote, separator = re.escape(self.dialect.quote), re.escape(self.dialect.separator)
        inside = f"[^{quote}{re.escape(self.dialect.escape) if self.dialect.escape != NONE else ''}]"
        # An empty field in quotes is no NULL, if another text is: only the parser below tells them apart.
        field = f"(?:{quote}{inside}{'*' if not self.dialect.null else '+'}{quote}|[^{quote}{separator}]*)"
        return f"^{field}(?:{separator}{field})*$"

    def _split(self, lines: pa.Array, wanted: Sequence[str]) -> tuple[Bools, list[pa.Array]]:
        """Which lines have as many fields as columns, and the fields of these."""
        count = len(self.columns)
        fits = np.asarray(pc.count_substring(lines, self.dialect.separator)) == count - 1
        good = lines if fits.all() else lines.filter(pa.array(fits))
        fields = pc.split_pattern(good, self.dialect.separator).values
        first = np.arange(len(good), dtype=np.int64) * count
        return fits, [self._nulls(fields.take(pa.array(first + self.columns.index(name)))) for name in wanted]

    def _quoted(self, lines: pa.Array, wanted: Sequence[str]) -> tuple[Bools, list[pa.Array]]:
        """As `_split`, by Arrow's reader, which tells the lines that have another number of fields."""
        text = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")[0].as_buffer()
        other: list[str] = []
        found = self._parsed(text, wanted or [self.columns[0]], quoted=True, skipped=other)
        fits = np.ones(len(lines), np.bool_)
        if other:
            fits = ~np.asarray(pc.is_in(lines, pa.array(other, pa.string())))
        if found.num_rows != fits.sum():  # Arrow sees other ends of lines than Spark.
            return np.zeros(len(lines), np.bool_), [pa.nulls(0, pa.string()) for _ in wanted]
        return fits, [self._nulls(found.column(name).combine_chunks()) for name in wanted]

    def _tokenized(self, lines: pa.Array, wanted: Sequence[str]) -> tuple[Bools, list[pa.Array]]:
        """Which lines have as many fields as columns, and the fields of all."""
        rows, count = [fields_of(line, self.dialect) for line in lines.to_pylist()], len(self.columns)
        fits = np.array([len(row) == count for row in rows], np.bool_)
        places = [self.columns.index(name) for name in wanted]
        columns = [
            pa.array([row[place] if place < len(row) else None for row in rows], pa.string()) for place in places
        ]
        return fits, [self._nulls(column) for column in columns]

    def _nulls(self, fields: pa.Array) -> pa.Array:
        """Without the text that means NULL, and without empty fields, which `_tokenized` has as NULL already."""
        fields = fields.cast(pa.string())
        absent = pc.equal(fields, self.dialect.null)
        if self.dialect.null and not fields.null_count:
            absent = pc.or_(absent, pc.equal(fields, ""))
        return pc.if_else(absent, pa.scalar(None, pa.string()), fields)

    def _parsed(
        self, text: pa.Buffer, wanted: Sequence[str], *, quoted: bool, skipped: list[str] | None = None
    ) -> pa.Table:
        """`skipped`: gets the lines with another number of fields; None: ArrowInvalid if there is one."""

        def skip(row: pyarrow.csv.InvalidRow) -> str:
            if skipped is None:
                return "error"
            skipped.append(row.text)
            return "skip"

        read = pyarrow.csv.ReadOptions(
            column_names=self.columns, block_size=max(len(text) + 1, 1024), use_threads=False
        )
        parse = pyarrow.csv.ParseOptions(
            delimiter=self.dialect.separator, quote_char=self.dialect.quote if quoted else False, double_quote=False,
            escape_char=False, newlines_in_values=False, invalid_row_handler=skip,
        )  # fmt: skip
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()), include_columns=list(wanted), strings_can_be_null=False
        )
        return pyarrow.csv.read_csv(pa.BufferReader(text), read, parse, convert)

    def _converted(self, found: pa.Table, schema: pa.Schema) -> Decoded:
        fields = {name: self._nulls(found.column(name).combine_chunks()) for name in found.column_names}
        columns, bad = self._converted_fields(fields, found.num_rows, schema)
        return Decoded(columns, pc.if_else(bad, pa.scalar(""), pa.scalar(None, pa.string())))

    def _converted_fields(
        self, fields: dict[str, pa.Array], count: int, schema: pa.Schema
    ) -> tuple[pa.RecordBatch, pa.Array]:
        """Columns of the schema, and which lines have a field that does not fit one of them."""
        arrays, bad = [], pa.array(np.zeros(count, np.bool_))
        for field in schema:
            if field.name not in fields:
                arrays.append(pa.nulls(count, field.type))
                continue
            column, failed = converted(fields[field.name], field.type)
            arrays.append(column)
            bad = bad if failed is None else pc.or_(bad, failed)
        return pa.RecordBatch.from_arrays(arrays, schema=schema), bad


def texts_of(lines: pa.Array) -> pa.Array:
    """Bytes as text, with U+FFFD in place of what is not UTF-8."""
    try:
        return lines.cast(pa.large_string() if pa.types.is_large_binary(lines.type) else pa.string()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([line.decode("utf-8", "replace") for line in lines.to_pylist()], pa.string())


def without_blank(lines: pa.Array) -> pa.Array:
    """Without lines of white space, which are no records."""
    blank = pc.equal(pc.binary_length(pc.utf8_trim(lines, _SPACE)), 0)
    return lines.filter(pc.invert(blank)) if pc.any(blank, min_count=0).as_py() else lines
