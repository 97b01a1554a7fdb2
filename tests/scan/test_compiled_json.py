"""JSON by the compiled library: each record is read exactly as without it, or left to the exact reader."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scan.test_json import RECORDS, SCHEMA, VALUES, nasty
from windowpane.native import compiled
from windowpane.scan.json import decoding
from windowpane.scan.json.compiled_parser import by_library
from windowpane.scan.json.decoding import decode
from windowpane.scan.json.single_records import RecordReader

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiled library: `make setup` builds it if it can")
Shown = list[tuple[str, str | None]]


def exact(records: list[bytes]) -> Shown:
    """By the reader of single records, which is compared with Spark elsewhere."""
    read, found = RecordReader(SCHEMA), []
    for record in records:
        fields, good = read(record)
        row = {name: fields.get(name) for name in SCHEMA.names}
        found.append((repr(row), None if good else record.decode("utf-8", "replace")))
    return found


def shown(records: list[bytes]) -> Shown:
    decoded = decode(pa.array(records, pa.binary()), SCHEMA)
    decoded.columns.validate(full=True)
    return list(zip(map(repr, decoded.columns.to_pylist()), decoded.bad.to_pylist(), strict=True))


def read_by_library(*records: bytes) -> list[dict[str, object] | None]:
    """The fields of records that the library reads; None for those that it leaves to others."""
    parsed = by_library(pa.array([b"before", *records], pa.binary())[1:], SCHEMA)
    assert parsed is not None
    parsed.columns.validate(full=True)
    rows = parsed.columns.to_pylist()
    return [None if doubt else row for row, doubt in zip(rows, parsed.doubtful.tolist(), strict=True)]


SIGNS = '\\"/\x00\x1f\x7f\x80\ud800äé€😀{}[]:, u0'
NUMBERS = [0, -0.0, 2**31, 2**53 + 1, 2**63, 10**40, 1e-400, 5e-324, 1.7976931348623157e308]
texts = st.text(alphabet=st.characters(codec="utf-8")) | st.text(SIGNS, max_size=12)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1),
    st.floats(), texts, st.sampled_from(NUMBERS),
)  # fmt: skip
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
names = st.sampled_from([*SCHEMA.names, "other", "", "V", "vv"])
objects = st.lists(st.tuples(names, values), max_size=7)


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """An object whose names may repeat, written in one of JSON's ways, now and then damaged."""
    members = draw(objects)
    space, ascii_only = draw(st.sampled_from(["", "", " ", "\t\r\n "])), draw(st.booleans())

    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    pairs = f"{space},{space}".join(f"{text(name)}{space}:{space}{text(value)}" for name, value in members)
    record = f"{space}{{{space}{pairs}{space}}}{space}".encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 3)) == 0:
        low = draw(st.integers(0, len(record)))
        high = draw(st.integers(low, min(low + 3, len(record))))
        record = (
            record[:low]
            + draw(st.binary(max_size=2) | st.sampled_from([b",", b'"', b"}", b"\\", b"0"]))
            + record[high:]
        )
    return record


@given(st.lists(written(), min_size=1, max_size=8))
def test_decoding_with_the_library_is_the_exact_reader(records: list[bytes]) -> None:
    assert shown(records) == exact(records)


@given(st.lists(written(), min_size=1, max_size=4))
def test_what_the_library_reads_is_what_the_exact_reader_reads(records: list[bytes]) -> None:
    for row, (wanted, bad) in zip(read_by_library(*records), exact(records), strict=True):
        assert row is None or (repr(row), None) == (wanted, bad)


@pytest.mark.parametrize("seed", range(8))
def test_nasty_records(seed: int) -> None:
    rng = random.Random(seed)
    records = [nasty(rng) for _ in range(400)]
    for row, (wanted, bad) in zip(read_by_library(*records), exact(records), strict=True):
        assert row is None or (repr(row), None) == (wanted, bad)


@pytest.mark.parametrize("name", [*SCHEMA.names, "other"])
def test_each_odd_value_in_each_column(name: str) -> None:
    records = [f'{{"{name}": {value}, "v": 5}}'.encode() for value in VALUES if name != "v"]
    records += [f'{{"{name}":{value}}}'.encode() for value in VALUES] + list(RECORDS)
    assert shown(records) == exact(records)


def test_ordinary_records_are_read_by_the_library() -> None:
    rows: list[dict[str, Any]] = [
        {"k": "a", "x": 1.5, "v": 7, "i": -3, "ok": True},
        {"k": 'quote " backslash \\ / \b\f\n\r\t é € 😀 \x7f', "x": -0.0, "v": 2**63 - 1, "i": -(2**31), "ok": False},
        {"k": "", "x": 0.1 + 0.2, "v": -(2**63), "i": 2**31 - 1, "ok": None},
        {"k": None, "x": 1e-7, "v": None, "i": 0, "ok": None},
        {"k": "nul \x00", "x": 123456789012345678, "v": 0, "i": None, "ok": True},
    ]
    for ascii_only in (True, False):
        records = [
            json.dumps(row | {"other": [{}, [], {"a": [1, "x\\", None]}]}, ensure_ascii=ascii_only) for row in rows
        ]
        found = read_by_library(*(record.encode() for record in records))
        assert list(map(repr, found)) == [repr(row | {"x": float(row["x"])}) for row in rows]


@pytest.mark.parametrize(
    "record",
    [
        b'{"v": 1, "v": 2}', b'{"v": 9223372036854775808}', b'{"i": 2147483648}', b'{"v": 1.0}', b'{"v": -0}',
        b'{"x": NaN}', b'{"q": Infinity}', b'{"x": 1e999}', b'{"x": "NaN"}', b'{"k": 1}', b'{"k": {}}', b'{"ok": 1}',
        b'{"v": 1} tail', b'\xef\xbb\xbf{"v": 1}', b"", b" ", b"null", b'{"\\u0076": 1}', b'{"k": "\\ud800"}',
        b'{"k": "\xff"}', b'{"k": "\xed\xa0\x80"}', b'{"k": "\xc0\x80"}', b'{"k": "a\tb"}', b'{"v": 01}', b'{"v": 1,}',
        b'{"q": ' + b"[" * 65 + b"]" * 65 + b"}", b'{"q": ' + b"9" * 301 + b"}", b'{"v": 1}{"v": 2}', b'{"v": +1}',
        b'{"k": "a', b'{"k": "a\\', b'{"k": "\\u00', b'{"k"', b'{"k":', b"{", b'{"v": tru}', b'{"q": [1,]}',
        b'{"q": {"a"}}',
    ],
)  # fmt: skip
def test_unusual_records_are_left_to_the_exact_reader(record: bytes) -> None:
    assert read_by_library(b'{"v": 1}', record, b'{"v": 2}')[1] is None
    assert [row and row["v"] for row in read_by_library(b'{"v": 1}', record, b'{"v": 2}')][::2] == [1, 2]
    assert shown([b'{"v": 1}', record]) == exact([b'{"v": 1}', record])


@pytest.mark.parametrize("digits", [1, 5, 15, 16, 17, 18, 19, 25])
def test_doubles_are_the_nearest(digits: int) -> None:
    rng = random.Random(digits)
    written = []
    for _ in range(300):
        number = str(rng.randrange(10 ** (digits - 1), 10**digits))
        at = rng.randrange(len(number))
        point = f"{number[: at + 1]}.{number[at + 1 :] or '0'}"
        written.append(rng.choice(["", "-"]) + rng.choice([point, point + f"e{rng.randint(-320, 280)}", number]))
    written = [text.replace("-0.", "-1.") if text[:2] == "-0" else text for text in written]
    found = read_by_library(*(f'{{"x": {text}}}'.encode() for text in written))
    for text, row in zip(written, found, strict=True):
        assert row is not None or math.isinf(float(text))
        assert row is None or repr(row["x"]) == repr(float(text))


def test_types_that_the_library_does_not_have_are_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    records = pa.array([b'{"v": 1.5}'] * 40, pa.binary())
    schema = pa.schema([("v", pa.float32())])
    assert by_library(records, schema) is None
    assert by_library(records, pa.schema([])) is None
    assert by_library(records.cast(pa.large_binary()), SCHEMA) is None
    assert decode(records, schema).columns.to_pylist() == [{"v": 1.5}] * 40
    monkeypatch.setattr(decoding, "by_library", lambda *_: None)
    assert shown([b'{"v": 1, "k": "a"}'] * 40) == exact([b'{"v": 1, "k": "a"}'] * 40)
