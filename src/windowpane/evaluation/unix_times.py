"""Numbers and timestamps to microseconds, a column at a time: exact, floored (right before 1970), overflow fails."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
ParsedTimes: TypeAlias = tuple[pa.Array, pa.Array]
"""Microseconds as int64 (NULL where there are none), and whether a value was there that could not be read."""

_NUMBER = r"^\s*(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.(?P<fraction>\d*))?(?:[eE](?P<exponent>[+-]?\d{1,3}))?\s*$"
_LARGEST = "9223372036854775808"
_EXACT_FLOAT = float(2**53)


def parsed(values: pa.Array, us: Int64s, good: Bools) -> ParsedTimes:
    """Results where `good`, a failure where a value is there and not good."""
    there = np.asarray(values.is_valid())
    good = good & there
    return pa.array(us, pa.int64(), mask=~good), pa.array(there & ~good)


def parse_unix(values: pa.Array, unit_us: int) -> ParsedTimes:
    """Counts of `unit_us` since the epoch, as integers, floats, decimals or numbers in text."""
    kind = values.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return _multiplied(values, values.cast(pa.int64()), unit_us)
    if pa.types.is_floating(kind):
        return parsed(values, *_from_floats(np.asarray(values.cast(pa.float64()).fill_null(0.0)), unit_us))
    if pa.types.is_decimal(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.uint64():
        return parsed(values, *_from_texts(values.cast(pa.string()), unit_us))
    return parsed(values, np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_))


def parse_timestamps(values: pa.Array) -> ParsedTimes:
    """Timestamps of any unit, and dates; without a time zone they are UTC."""
    kind = values.type
    if pa.types.is_date(kind):
        days = np.asarray(values.cast(pa.date32()).cast(pa.int32()).fill_null(0)).astype(np.int64)
        return _multiplied(values, pa.array(days, mask=np.asarray(values.is_null())), 86_400_000_000)
    if not pa.types.is_timestamp(kind):
        return parsed(values, np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_))
    counts = values.cast(pa.int64())
    if kind.unit == "ns":
        whole = np.asarray(counts.fill_null(0)) // 1_000
        return parsed(values, whole, np.ones(len(values), np.bool_))
    return _multiplied(values, counts, {"s": 1_000_000, "ms": 1_000, "us": 1}[kind.unit])


def _multiplied(values: pa.Array, counts: pa.Array, unit_us: int) -> ParsedTimes:
    """NULL where the product does not fit."""
    if unit_us == 1:
        return counts, pa.repeat(pa.scalar(False), len(values))
    limit = (2**63 - 1) // unit_us
    fits = pc.and_(pc.less_equal(counts, limit), pc.greater_equal(counts, -limit))
    times = pc.multiply(pc.if_else(fits, counts, None), unit_us)
    if times.null_count == values.null_count:
        return times, pa.repeat(pa.scalar(False), len(values))
    return times, pc.and_(values.is_valid(), times.is_null())


def _from_floats(values: npt.NDArray[np.float64], unit_us: int) -> tuple[Int64s, Bools]:
    """A float stands for the shortest decimal that reads back as it: 0.3 s is 300000 us, though the double is below."""
    good = np.isfinite(values) & (np.abs(values) * unit_us < 2**63)
    exact = np.where(good, values, 0.0)
    scaled = exact * unit_us
    nearest = np.rint(scaled)
    floored = np.floor(scaled)
    floored -= floored / unit_us > exact
    fine = np.where(nearest / unit_us == exact, nearest, floored).astype(np.int64)
    whole = np.floor(exact)
    coarse = whole.astype(np.int64) * unit_us + np.floor((exact - whole) * unit_us).astype(np.int64)
    return np.where(np.abs(scaled) < _EXACT_FLOAT, fine, coarse), good


def _from_texts(texts: pa.Array, unit_us: int) -> tuple[Int64s, Bools]:
    parts = pc.extract_regex(texts, pattern=_NUMBER)
    whole, fraction = (pc.fill_null(pc.struct_field(parts, name), "") for name in ("whole", "fraction"))
    written = np.asarray(pc.match_substring_regex(texts, r"\d").fill_null(False))
    matched = np.asarray(parts.is_valid()) & written
    negative = np.asarray(pc.equal(pc.struct_field(parts, "sign"), "-").fill_null(False))
    us, good = _from_digits(whole, fraction, negative, unit_us)
    scientific = matched & np.asarray(pc.not_equal(pc.struct_field(parts, "exponent"), "").fill_null(False))
    if scientific.any():
        plain = pc.if_else(pa.array(scientific), pc.utf8_trim_whitespace(texts), "0")
        float_us, float_good = _from_floats(np.asarray(plain.cast(pa.float64())), unit_us)
        us, good = np.where(scientific, float_us, us), np.where(scientific, float_good, good)
    return us, good & matched


def _from_digits(whole: pa.Array, fraction: pa.Array, negative: Bools, unit_us: int) -> tuple[Int64s, Bools]:
    """sign, digits, digits to floor(value * unit), in integers all the way."""
    count = unsigned_digits(whole)
    places = len(str(unit_us)) - 1
    padded = pc.utf8_rpad(fraction, width=places, padding="0") if places else fraction
    part = np.asarray(pc.utf8_slice_codeunits(padded, 0, places).cast(pa.uint64())) if places else np.uint64(0)
    rest = pc.utf8_slice_codeunits(padded, places, 10_000)
    below = np.asarray(pc.match_substring_regex(rest, "[1-9]")) & negative
    most = np.where(negative, np.uint64(2**63), np.uint64(2**63 - 1)).astype(np.uint64)
    lost = np.asarray(part + below.astype(np.uint64), np.uint64)
    good = count[1] & (count[0] <= (most - lost) // np.uint64(unit_us))
    magnitude = np.where(good, count[0], 0).astype(np.uint64) * np.uint64(unit_us) + np.where(good, lost, np.uint64(0))
    return np.where(negative, np.uint64(0) - magnitude, magnitude).astype(np.uint64).view(np.int64), good


def unsigned_digits(texts: pa.Array) -> tuple[npt.NDArray[np.uint64], Bools]:
    """Digits without leading zeros (empty is 0) as numbers up to 2**63, and which of them fit."""
    length = np.asarray(pc.utf8_length(texts))
    within = np.asarray(pc.less_equal(texts, _LARGEST))
    good = (length < len(_LARGEST)) | ((length == len(_LARGEST)) & within)
    plain = pc.if_else(pa.array(good & (length > 0)), texts, "0")
    return np.asarray(plain.cast(pa.uint64())), good
