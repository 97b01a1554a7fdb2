"""Sorts JSON records by their outer shape, a block at a time, before they are parsed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.scan.decoded import Positions
from windowpane.scan.json.arrow_parser import braced, edges, is_utf8

_WHITE = " \t\r\n"
_WHITES = np.frombuffer(_WHITE.encode(), np.uint8)
_OPEN, _CLOSE, _QUOTE = b'{}"'


class Shapes(NamedTuple):
    """Positions of the records of each shape."""

    objects: Positions
    """They begin and end with a brace."""
    broken: Positions
    """They are certainly not objects, and Spark reads no field of them."""
    unclear: Positions


def trimmed(records: pa.Array) -> pa.Array:
    """Records without surrounding white space."""
    first, last = edges(records)
    if not (np.isin(first, _WHITES) | np.isin(last, _WHITES)).any():
        return records
    text = pa.large_string() if pa.types.is_large_binary(records.type) else pa.string()
    return pc.ascii_trim(records.view(text), _WHITE).view(records.type)


def shapes(records: pa.Array) -> Shapes:
    """The shapes of trimmed records."""
    readable = _readable(records)
    objects = braced(records) & readable & ~_trailing_comma(records)
    open_end = np.flatnonzero((edges(records)[0] == _OPEN) & ~braced(records) & readable)
    closed = open_end[~_unclosed(records.take(pa.array(open_end)))]
    broken = ~objects
    broken[closed] = False
    return Shapes(np.flatnonzero(objects), np.flatnonzero(broken), closed)


def _trailing_comma(records: pa.Array) -> npt.NDArray[np.bool_]:
    """Marks records whose only closing brace is at the end, after a comma: they are not objects."""
    found: npt.NDArray[np.bool_] = pc.match_substring_regex(records, r"\A[^}]*,[ \t\r\n]*\}\z").to_numpy(
        zero_copy_only=False
    )
    return found


def _readable(records: pa.Array) -> npt.NDArray[np.bool_]:
    """Marks records that are UTF-8."""
    if is_utf8(records):
        return np.ones(len(records), np.bool_)
    text = pa.large_string() if pa.types.is_large_binary(records.type) else pa.string()
    found: npt.NDArray[np.bool_] = pc.string_is_ascii(records.view(text)).to_numpy(zero_copy_only=False)
    others = np.flatnonzero(~found)
    found[others] = [_is_text(record) for record in records.take(pa.array(others)).to_pylist()]
    return found


def _is_text(record: bytes) -> bool:
    try:
        record.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _unclosed(records: pa.Array) -> npt.NDArray[np.bool_]:
    """Marks records whose opening brace is certainly never closed. All records begin with a brace."""
    found: npt.NDArray[np.bool_] = np.ones(len(records), np.bool_)
    doubtful = np.flatnonzero(pc.match_substring(records, b"}").to_numpy(zero_copy_only=False))
    found[doubtful] = False
    if len(doubtful):
        rest = records.take(pa.array(doubtful))
        plain = ~pc.match_substring(rest, b"\\").to_numpy(zero_copy_only=False)
        found[doubtful[plain]] = _never_closed(rest.filter(pa.array(plain)).to_pylist())
    return found


def _never_closed(records: list[bytes]) -> npt.NDArray[np.bool_]:
    """Counts the braces outside of strings, in records without escaped quotes."""
    if not records:
        return np.zeros(0, np.bool_)
    signs = np.frombuffer(b"".join(records), np.uint8)
    starts = np.cumsum([0, *map(len, records[:-1])])
    counts = np.diff([*starts, len(signs)])
    quotes = np.cumsum(signs == _QUOTE, dtype=np.int32)
    inside = (quotes - np.repeat(quotes[starts], counts)) & 1 == 1
    steps = np.where(inside, 0, (signs == _OPEN).astype(np.int32) - (signs == _CLOSE))
    depths = np.cumsum(steps, dtype=np.int32)
    before = np.repeat(depths[starts] - 1, counts)
    never: npt.NDArray[np.bool_] = np.minimum.reduceat(depths - before, starts) > 0
    return never
