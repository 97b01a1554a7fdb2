"""Finds the columns whose values in JSON objects have the wrong type, for a block of objects at a time.

A regular expression finds objects that may have such a value; DuckDB finds the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.scan.json.arrow_parser import deep

Mask = npt.NDArray[np.bool_]
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
"""An integer with so many digits may be out of range."""
_DUCKDB = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT"}
_COPIED = "('BIGINT', 'UBIGINT', 'BOOLEAN')"
_SPACE = "[ \\t\\r\\n]*"
_ODD = (
    r"\\u00[2-7]|,[ \t\r\n]*[}\]]|[:,\[][ \t\r\n]*(?:-0[ \t\r\n,}\]]|[-+]?(?:NaN|Inf|INF)"
    r'|"[-+]?(?:NaN|INF|Infinity)"|-?[0-9.]+[eE]\+?[0-9]{3})'
)
"""Text that makes names or values uncertain: escaped letters, the integer -0, what parsers treat differently."""
_CERTAIN_NAME = re.compile(r"[ !#-&(-.0-\[\]-~]+")
"""A name that JSON can spell in one way only, apart from escaped letters."""
_PATH_BREAKERS = frozenset("\"'\\*")


def suspects(objects: pa.Array, schema: pa.Schema) -> Mask:
    """Marks objects that may have a value of the wrong type. A wrong mark only costs time."""
    pattern = "|".join(f'"{re.escape(field.name)}"{_SPACE}:{_SPACE}(?:{_unfit(field.type)})' for field in schema)
    found: Mask = pc.match_substring_regex(objects, pattern or "$^").to_numpy(zero_copy_only=False).copy()
    return found


def repeats(objects: pa.Array, schema: pa.Schema) -> Mask:
    """Marks objects that may have the name of a column more than once."""
    found = np.zeros(len(objects), np.bool_)
    for field in schema:
        found |= _repeated(objects, field.name)
    return found


def _unfit(kind: pa.DataType) -> str:
    """A pattern for the beginning of values that do not fit the type, or that Arrow and Spark read differently."""
    if pa.types.is_string(kind):
        return '[^"n \\t\\r\\n]'
    if pa.types.is_boolean(kind):
        return "[^tfn \\t\\r\\n]"
    if kind in _DIGITS:
        return f"[^-0-9n \\t\\r\\n]|-?[0-9]+[.eE]|-?[0-9]{{{_DIGITS[kind]}}}"
    return "[^-0-9n \\t\\r\\n]|-0[^.eE0-9]|-?[0-9]+(?:\\.[0-9]+)?[eE][+]?[0-9]{3}"


class Misfits(NamedTuple):
    """How values fit their columns: a row per object, a column per column of the schema."""

    unfit: Mask
    """The value certainly does not fit."""
    copied: Mask
    """The column is STRING and the value a number or boolean, whose JSON text is the result."""
    unclear: Mask
    """Per object: neither of the above is certain."""


def misfits(objects: pa.Array, schema: pa.Schema) -> Misfits:
    """How values fit, provided that Arrow parses the objects without the columns that are unfit or copied."""
    shape = (len(objects), len(schema))
    found = Misfits(np.zeros(shape, np.bool_), np.zeros(shape, np.bool_), np.ones(len(objects), np.bool_))
    clear = np.flatnonzero(_is_valid(objects) & ~_odd(objects) & ~deep(objects))
    kept = objects.take(pa.array(clear))
    typed = _typed(kept, schema)
    for at, field in enumerate(schema):
        if _CERTAIN_NAME.fullmatch(field.name) is None:
            typed.unclear[:] |= typed.unfit[:, at] | typed.copied[:, at]
        else:
            typed.unclear[:] |= _repeated(kept, field.name)
    for whole, part in zip(found, typed, strict=True):
        whole[clear] = part
    return found


def copied_texts(objects: pa.Array, name: str) -> pa.Array:
    """The JSON text of a column's values in valid objects."""
    return _query([f"json_extract_string(record, '$.\"{name}\"')"], objects).column(0).combine_chunks()


def _odd(objects: pa.Array) -> Mask:
    found: Mask = pc.match_substring_regex(objects, _ODD).to_numpy(zero_copy_only=False)
    return found


def _repeated(objects: pa.Array, name: str) -> Mask:
    """Marks objects that may have a name more than once."""
    found: Mask = pc.count_substring(objects, f'"{name}"'.encode()).to_numpy() > 1
    return found


def _is_valid(objects: pa.Array) -> Mask:
    found: Mask = _queried(["json_valid(record)"], objects)[0]
    return found


def _typed(objects: pa.Array, schema: pa.Schema) -> Misfits:
    """As `misfits`, for valid objects in which no name repeats."""
    paths = [
        (at, f"'$.\"{field.name}\"'", field.type)
        for at, field in enumerate(schema)
        if not _PATH_BREAKERS & set(field.name)
    ]
    shape = (len(objects), len(schema))
    typed = Misfits(np.zeros(shape, np.bool_), np.zeros(shape, np.bool_), np.zeros(len(objects), np.bool_))
    if not paths or not len(objects):
        return typed
    kinds = f"json_type(record, [{', '.join(path for _, path, _ in paths)}])"
    tests = [_test(f"kinds[{number}]", path, kind) for number, (_, path, kind) in enumerate(paths, 1)]
    copies = [f"coalesce(kinds[{number}] IN {_COPIED}, FALSE)" for number in range(1, len(paths) + 1)]
    found = _queried([*tests, *copies], objects, kinds)
    for number, (at, _, kind) in enumerate(paths):
        if pa.types.is_string(kind):
            typed.copied[:, at] = found[len(paths) + number]
            typed.unclear[:] |= found[number] & ~typed.copied[:, at]  # objects and arrays are serialised anew
        else:
            typed.unfit[:, at] = found[number]
    return typed


def _test(name: str, path: str, kind: pa.DataType) -> str:
    """SQL: whether a value does not fit a column. `name` is the value's type in DuckDB."""
    if pa.types.is_string(kind):
        fits = f"{name} IN ('VARCHAR', 'NULL')"
    elif pa.types.is_boolean(kind):
        fits = f"{name} IN ('BOOLEAN', 'NULL')"
    elif kind in _DUCKDB:
        ranged = f"TRY_CAST(json_extract_string(record, {path}) AS {_DUCKDB[kind]}) IS NOT NULL"
        fits = f"CASE WHEN {name} IN ('BIGINT', 'UBIGINT') THEN {ranged} ELSE {name} = 'NULL' END"
    else:
        fits = f"{name} IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'NULL')"
    return f"{name} IS NOT NULL AND NOT ({fits})"


def _queried(expressions: Sequence[str], objects: pa.Array, kinds: str = "NULL") -> list[Mask]:
    return [column.to_numpy().astype(np.bool_) for column in _query(expressions, objects, kinds).columns]


def _query(expressions: Sequence[str], objects: pa.Array, kinds: str = "NULL") -> pa.Table:
    from windowpane.evaluation import duckdb_tables  # noqa: PLC0415  # not needed if all records are good

    table = pa.table({"record": objects.cast(pa.string())})
    listed = ", ".join(f"{text} AS c{number}" for number, text in enumerate(expressions))
    sql = f"SELECT {listed} FROM (SELECT record, {kinds} AS kinds FROM {duckdb_tables.INPUT})"
    return duckdb_tables.query(duckdb_tables.connect(), sql, table)


def alike(unfit: Mask) -> Iterator[tuple[npt.NDArray[np.int64], Mask]]:
    """Groups of equal rows of a matrix: their positions, and the row."""
    packed = np.ascontiguousarray(np.packbits(unfit, axis=1))
    whole = packed.view([("", np.void, packed.shape[1])]).ravel() if packed.shape[1] else np.zeros(len(unfit), np.void)
    _, first, group = np.unique(whole, return_index=True, return_inverse=True)
    for number, at in enumerate(first):
        yield np.flatnonzero(group == number), unfit[at]
