"""Reads JSON objects that differ only in their values: one producer writes all of them, field by field in one order.

The first record is the template: constant texts with values between them. The places of quotes locate the texts in all
other records at once. If each record has the same texts, and all values are integers and strings without escapes, the
values are cut out; else nothing is read, and Arrow's parser reads the records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.scan.json.arrow_parser import is_utf8

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
FEWEST, SAMPLE = 4096, 64
"""Records in a block that is worth the effort: it takes a millisecond whatever their number. Those on which a template
is tried."""
_PIECE = 1 << 16
_PAD = 16
_QUOTE, _BACKSLASH, _MINUS, _ZERO, _SPACE = (ord(sign) for sign in '"\\-0 ')
_MEMBER = re.compile(rb' *"([^"]*)" *: *(?:(")[^"]*"|(-?[0-9]+))')
_MOST_DIGITS = 16
_INTEGERS = {pa.int64(): (-(2**63), 2**63 - 1), pa.int32(): (-(2**31), 2**31 - 1)}


@dataclass(frozen=True)
class _Field:
    name: str
    is_text: bool


@dataclass(frozen=True)
class _Template:
    """`texts[i]` stands before value i, and the last one at the end."""

    texts: tuple[bytes, ...]
    fields: tuple[_Field, ...]

    @property
    def quotes(self) -> int:
        return sum(text.count(b'"') for text in self.texts)


def by_template(records: pa.Array, schema: pa.Schema) -> pa.RecordBatch | None:
    """The columns of all records, as Arrow's parser gives them; None unless the records are alike."""
    if len(records) < FEWEST or not pa.types.is_binary(records.type):
        return None
    template = _template_of(records[0].as_py())
    if template is None or not _fits(template, schema):
        return None
    if _values(records.slice(0, SAMPLE), template, schema) is None:
        return None
    return _values(records, template, schema)


def _template_of(record: bytes) -> _Template | None:
    if not record.startswith(b"{"):
        return None
    texts, fields, done, at = [], list[_Field](), 0, 1
    while (found := _MEMBER.match(record, at)) is not None:
        is_text = found[2] is not None
        begins = found.start(2) + 1 if is_text else found.start(3)
        texts.append(record[done:begins])
        fields.append(_Field(found[1].decode("utf-8", "replace"), is_text))
        done = found.end() - 1 if is_text else found.end()
        comma = re.compile(rb" *,").match(record, found.end())
        if comma is None:
            break
        at = comma.end()
    texts.append(record[done:])
    whole = re.fullmatch(rb'"? *}', texts[-1]) is not None
    is_unique = len({field.name for field in fields}) == len(fields)
    return _Template(tuple(texts), tuple(fields)) if fields and whole and is_unique else None


def _fits(template: _Template, schema: pa.Schema) -> bool:
    """Whether each column of the schema has a type that its values are read as."""
    kinds = {field.name: field.is_text for field in template.fields}
    wanted = {True: (pa.string(),), False: tuple(_INTEGERS)}
    return all(field.type in wanted[kinds[field.name]] for field in schema if field.name in kinds)


def _values(records: pa.Array, template: _Template, schema: pa.Schema) -> pa.RecordBatch | None:
    count = len(records)
    _, ends, content = records.buffers()
    offsets = np.frombuffer(ends, np.int32)[records.offset : records.offset + count + 1].astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    signs = np.zeros(size + 2 * _PAD, np.uint8)
    signs[_PAD : _PAD + size] = np.frombuffer(content, np.uint8)[first : first + size]
    offsets += _PAD - first
    plain = signs[_PAD : _PAD + size]
    if not size or plain.min() < _SPACE or (plain.max() >= 0x80 and not is_utf8(records)):
        return None
    quotes = _quotes(plain)
    if quotes is None or len(quotes) != count * template.quotes:
        return None
    places = _places(signs, offsets, quotes.reshape(count, -1) + _PAD, template)
    return None if places is None else _columns(signs, places, template, schema, count)


def _quotes(signs: npt.NDArray[np.uint8]) -> Positions | None:
    """The positions of all quotes; None if there is a backslash. Pieces fit into a processor's cache."""
    found = []
    for at in range(0, len(signs), _PIECE):
        piece = signs[at : at + _PIECE]
        if (piece == _BACKSLASH).any():
            return None
        found.append(np.flatnonzero(piece == _QUOTE) + at)
    return np.concatenate(found)


def _places(
    signs: npt.NDArray[np.uint8], offsets: Positions, quotes: Positions, template: _Template
) -> list[Positions] | None:
    """Where each text of the template begins in each record; None if a record has other texts.

    The texts have as many quotes as the record, one after the other, so values contain none.
    """
    words = np.ndarray((len(signs) - 7,), "<u8", signs, strides=(1,))
    places, used = [], 0
    for text in template.texts:
        place = quotes[:, used] - text.index(b'"') if b'"' in text else offsets[1:] - len(text)
        used += text.count(b'"')
        if not _has_text(words, place, text):
            return None
        places.append(place)
    begins_and_ends = (places[0] == offsets[:-1]).all() and (places[-1] + len(template.texts[-1]) == offsets[1:]).all()
    return places if begins_and_ends else None


def _has_text(words: Words, place: Positions, text: bytes) -> bool:
    """Whether a text stands at all places, compared by eight bytes."""
    if place.min() < 0:
        return False
    for at in range(0, len(text), 8):
        part = text[at : at + 8]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        if ((words[place + at] & mask) != np.uint64(int.from_bytes(part, "little"))).any():
            return False
    return True


def _columns(
    signs: npt.NDArray[np.uint8], places: list[Positions], template: _Template, schema: pa.Schema, count: int
) -> pa.RecordBatch | None:
    found: dict[str, pa.Array] = {}
    for number, field in enumerate(template.fields):
        begins, ends = places[number] + len(template.texts[number]), places[number + 1]
        position = schema.get_field_index(field.name)
        if field.is_text:
            if (ends < begins).any():
                return None
            if position >= 0:
                found[field.name] = _texts(signs, begins, ends)
            continue
        values = _integers(signs, begins, ends)
        if values is None:
            return None
        if position >= 0:
            low, high = _INTEGERS[schema.field(position).type]
            if values.min() < low or values.max() > high:
                return None
            found[field.name] = pa.array(values).cast(schema.field(position).type)
    arrays = [found.get(field.name) for field in schema]
    return pa.RecordBatch.from_arrays(
        [pa.nulls(count, field.type) if array is None else array for array, field in zip(arrays, schema, strict=True)],
        schema=schema,
    )


def _texts(signs: npt.NDArray[np.uint8], begins: Positions, ends: Positions) -> pa.Array:
    """The bytes between two positions of each record. The whole text is known to be UTF-8."""
    offsets = np.empty(2 * len(begins) + 1, np.int32)
    offsets[0], offsets[1::2], offsets[2::2] = 0, begins, ends
    cut = pa.Array.from_buffers(pa.string(), 2 * len(begins), [None, pa.py_buffer(offsets), pa.py_buffer(signs)])
    return pc.take(cut, pa.array(np.arange(1, 2 * len(begins), 2)))


def _integers(signs: npt.NDArray[np.uint8], begins: Positions, ends: Positions) -> Positions | None:
    """Integers between two positions of each record; None if one is not an integer, or has too many digits."""
    first = signs[begins]
    negative = first == _MINUS
    if negative.any():
        begins = begins + negative
        first = signs[begins]
    lengths = ends - begins
    longest = int(lengths.max())
    if lengths.min() < 1 or longest > _MOST_DIGITS or ((first == _ZERO) & ((lengths > 1) | negative)).any():
        return None
    words = np.ndarray((len(signs) - 7,), "<u8", signs, strides=(1,))
    values = _eight_digits(words[ends - 8], np.minimum(lengths, 8))
    if values is not None and longest > 8:
        upper = _eight_digits(words[ends - 16], np.maximum(lengths - 8, 0))
        values = None if upper is None else values + upper * np.uint64(10**8)
    if values is None:
        return None
    signed = values.astype(np.int64)
    return np.where(negative, -signed, signed) if negative.any() else signed


def _eight_digits(words: Words, lengths: Positions) -> Words | None:
    """Numbers from the last digits of eight bytes, all at once in each word; None if a byte is not a digit."""
    zeros = np.uint64(0x3030303030303030)
    # A shift by 64 bits has no defined result, so words without digits are shifted in two steps.
    others = (np.uint64(8) - lengths.astype(np.uint64)) * np.uint64(4)
    shifted = (words >> others >> others) << others << others
    filler = ~((~np.uint64(0) >> others >> others) << others << others)
    digits = (shifted | (filler & zeros)) ^ zeros
    if ((digits | (digits + np.uint64(0x7676767676767676))) & np.uint64(0x8080808080808080)).any():
        return None
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    mask = np.uint64(0x000000FF000000FF)
    low = (pairs & mask) * np.uint64(0x000F424000000064)
    high = ((pairs >> np.uint64(16)) & mask) * np.uint64(0x0000271000000001)
    numbers: Words = (low + high) >> np.uint64(32)
    return numbers
