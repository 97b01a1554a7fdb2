"""Reads the files that Spark's file source lists.

A file that cannot be read to its end gives the rows before the damage, then a Damage that names the file.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.numbering import Place
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.remote.input_file import InputFile, is_remote
from windowpane.scan.scan import Damage, Part

ReadBatches: TypeAlias = Callable[[InputFile, pa.Schema, int], Iterator[pa.RecordBatch]]
"""Reads a file, given the declared columns and `max_record_bytes`. Registered as the format's `file_reader`.

Batches have those declared columns that the file has, in the types of the file. A column CORRUPT has the text of
records that could not be read, and NULL for the others.
"""
FOLDERS = b"folders"
"""In the metadata of batches of a file: the columns that its folders name, in lower case, as a comma-separated list."""
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_NAMED = re.compile(r"([^/=]+)=([^/]*)")


@dataclass(frozen=True)
class FileReader:
    """Reads the files of a listing with the columns `path` and `modificationTime`.

    If files are divided among tasks, `start` and `end` are the part of each that a task reads.
    """

    read_batches: ReadBatches
    columns: tuple[tuple[str, pa.DataType], ...]
    max_record_bytes: int
    access: Access = NO_ACCESS
    """How object stores are reached."""
    folders_of_path: int | None = 0
    """As the function of this name says."""

    @property
    def place(self) -> tuple[str, ...]:
        return ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self.columns)

    def read(self, handed: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        for batch in handed:
            modified = batch.column("modificationTime").cast(pa.int64()).to_pylist()
            divided = "start" in batch.schema.names
            starts = batch.column("start").to_pylist() if divided else [0] * batch.num_rows
            ends = batch.column("end").to_pylist() if divided else [None] * batch.num_rows
            for path, modified_us, start, end in zip(
                batch.column("path").to_pylist(), modified, starts, ends, strict=True
            ):
                local = path.removeprefix("file://").removeprefix("file:")
                place = Place.of_file(modified_us, local, start)
                file = InputFile(local, self.access, start, end)
                yield from (Part(content, place) for content in self.contents(file))

    def contents(
        self, file: InputFile, values: Mapping[str, str | None] | None = None
    ) -> Iterator[pa.RecordBatch | Damage]:
        """The rows of a file. `values`: of columns that are not in it; None: those that its folders name."""
        try:
            yield from self._rows(file, self._folders(file) if values is None else _lower(values))
        except FileNotFoundError as gone:
            if not file.start:  # One task says so, if several read the file.
                yield self._damage(file.path, gone)
        except (pa.ArrowException, OSError, ValueError, NotImplementedError) as damaged:
            yield self._damage(file.path, damaged)

    @staticmethod
    def _damage(path: str, what: Exception) -> Damage:
        return Damage(f"{path if is_remote(path) else f'file:{path}'}: {what}")

    def _folders(self, file: InputFile) -> dict[str, str | None]:
        return {} if self.folders_of_path is None else folder_values(file.path, self.folders_of_path)

    def _rows(self, file: InputFile, folders: Mapping[str, str | None]) -> Iterator[pa.RecordBatch]:
        for batch in self.read_batches(file, self.schema, self.max_record_bytes):
            fitted = self._fitted(batch, folders)
            if folders:
                fitted = fitted.replace_schema_metadata({FOLDERS: ",".join(folders).encode()})
            corrupt = c.CORRUPT in batch.schema.names
            yield fitted.append_column(c.CORRUPT, batch.column(c.CORRUPT)) if corrupt else fitted

    def _fitted(self, batch: pa.RecordBatch, folders: Mapping[str, str | None]) -> pa.RecordBatch:
        """The declared columns in their types. Names of folders override columns; one that is nowhere is NULL."""
        names = {name.lower(): name for name in batch.schema.names}
        arrays = []
        for name, kind in self.columns:
            if name.lower() in names and name.lower() not in folders:
                arrays.append(_as_declared(batch.column(names[name.lower()]), kind, name))
            else:
                arrays.append(_from_path(folders.get(name.lower()), kind, batch.num_rows))
        return pa.RecordBatch.from_arrays(arrays, [name for name, _ in self.columns])


def _lower(values: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name.lower(): value for name, value in values.items()}


def _as_declared(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """A column of a file in its declared type; ValueError if Spark would refuse to read it so."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == kind:
        return array
    if not _readable(array.type, kind):
        raise ValueError(f"column `{name}` is {array.type}, and {kind} is declared")
    if pa.types.is_timestamp(kind):
        # Nanoseconds are truncated, as in all other sources.
        return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(kind)
    return array.cast(kind)


def _readable(found: pa.DataType, declared: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(found):
        return True
    if types.is_signed_integer(declared):
        return bool(types.is_signed_integer(found) and found.bit_width <= declared.bit_width)
    if types.is_floating(declared):
        smaller = types.is_floating(found) and found.bit_width <= declared.bit_width
        return bool(smaller or (types.is_signed_integer(found) and found.bit_width <= declared.bit_width // 2))
    if types.is_timestamp(declared):
        return bool(types.is_timestamp(found))
    if types.is_string(declared):
        return bool(types.is_large_string(found) or types.is_string_view(found))
    if types.is_decimal(declared):
        return bool(types.is_decimal(found) and found.scale == declared.scale and found.precision <= declared.precision)
    return False


def folders_of_path(path: str, *, recursive: bool = False) -> int | None:
    """How many folders at the end of a stream's path are like `day=2024-05-01`, and so name no column of its rows.

    None if no folder names a column: Spark takes them from folders below the path of a stream, unless that is a glob.
    """
    if recursive or any(char in path for char in "*?[{"):
        return None
    return len(_named_folders(f"{path.rstrip('/')}/"))


def folder_values(path: str, of_path: int) -> dict[str, str | None]:
    """The values of columns that the folders of a file name, by column in lower case. `of_path`: `folders_of_path`."""
    found = {name.lower(): value for name, value in _named_folders(path)[of_path:]}
    return {name: None if value == _HIVE_NULL else urllib.parse.unquote(value) for name, value in found.items()}


def _named_folders(path: str) -> list[tuple[str, str]]:
    """Names and values of the folders right above a file, up to the first without a name."""
    matches = (_NAMED.fullmatch(folder) for folder in reversed(path.split("/")[:-1]))
    named = [(match[1], match[2]) for match in takewhile(bool, matches) if match]
    return named[::-1]


def _from_path(value: str | None, kind: pa.DataType, count: int) -> pa.Array:
    """A column that folders name."""
    return pa.nulls(count, kind) if value is None else pa.repeat(pc.cast(pa.scalar(value), kind), count)
