"""Fields of CSV files in the types of their columns, as Spark's CSV reader converts them.

Arrow converts columns of usual values. Where a column has others, such as `+5` or `1e3f`, these are converted one by
one by Java's rules.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?", re.ASCII)
_HEX = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*\.?[0-9a-fA-F]*)[pP]([+-]?\d+)[dDfF]?", re.ASCII)
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_JAVA_SPACE = "".join(map(chr, range(33)))


def converted(fields: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    """The values of a column, and which fields do not fit its type; None if all do. NULL stays NULL."""
    if pa.types.is_string(kind):
        return fields, None
    found = _as_a_whole(fields, kind)
    return (found, None) if found is not None else _one_by_one(fields, kind)


def _as_a_whole(fields: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """None if Arrow refuses a field, or takes one by other rules than Java."""
    if pa.types.is_boolean(kind):
        lower = pc.utf8_lower(fields)
        known = pc.or_(pc.equal(lower, "true"), pc.equal(lower, "false"))
        return pc.equal(lower, "true") if pc.all(known, skip_nulls=True, min_count=0).as_py() else None
    strange = r"[^0-9-]" if not pa.types.is_floating(kind) else r"[^0-9.eE+-]"
    if pc.any(pc.match_substring_regex(fields, strange), min_count=0).as_py():
        return None
    try:
        return fields.cast(kind)
    except pa.ArrowInvalid:
        return None


def _one_by_one(fields: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    encoded = fields.dictionary_encode()
    values = [_value(text, kind) for text in encoded.dictionary.to_pylist()]
    known = pa.array(values, pa.int32() if pa.types.is_date(kind) else kind).cast(kind)
    found = known.take(encoded.indices)
    bad = pc.and_(fields.is_valid(), found.is_null())
    return found, bad if pc.any(bad, min_count=0).as_py() else None


def _value(text: str, kind: pa.DataType) -> object:
    """A value, for dates the days since 1970; None if the text is none of this type."""
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}.get(text.lower())
    if pa.types.is_integer(kind):
        return _integer(text, kind.bit_width)
    return _days(text) if pa.types.is_date(kind) else _float(text, kind)


def _integer(text: str, bits: int) -> int | None:
    if _INTEGER.fullmatch(text) is None or any(ord(char) > 0xFFFF for char in text):
        return None
    number = int(text)
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


def _float(text: str, kind: pa.DataType) -> object:
    if text in ("Inf", "-Inf"):
        return float(text)
    bare = text.strip(_JAVA_SPACE)
    sign, name = (bare[:1], bare[1:]) if bare[:1] in ("+", "-") else ("", bare)
    if name in ("NaN", "Infinity"):
        return float(sign + name)
    if _DECIMAL.fullmatch(bare):
        # Arrow rounds a FLOAT once; Python would round to DOUBLE first.
        return pa.scalar(bare.rstrip("dDfF").removeprefix("+")).cast(kind).as_py()
    match = _HEX.fullmatch(bare)
    if match is None or match[2] in ("", "."):
        return None
    try:
        return float.fromhex(f"{match[1]}0x{match[2]}p{match[3]}")
    except OverflowError:
        return float(f"{match[1]}inf")


def _days(text: str) -> int | None:
    """Days since 1970 of `2024-05-01`, also without day or month, or with a time behind it."""
    match = _DATE.fullmatch(text.strip(f"{_JAVA_SPACE}\x7f"))
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not (1 <= month <= len(_MONTH_DAYS) and 1 <= day <= _MONTH_DAYS[month - 1] + (leap and month == 2)):
        return None
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    return days + sum(_MONTH_DAYS[: month - 1]) + (leap and month > 2) + day - 719_163
