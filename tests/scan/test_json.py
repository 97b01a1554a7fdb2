"""JSON records to columns: the columnar way against the exact one, and both against what Spark makes of them."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from windowpane.remote.input_file import InputFile
from windowpane.scan.codec import decode_values
from windowpane.scan.decoded import Decoded
from windowpane.scan.json import decoding, files
from windowpane.scan.json.codec import JsonCodec
from windowpane.scan.json.files import read_file
from windowpane.scan.json.single_records import RecordReader
from windowpane.scan.json.values import rewritten

SCHEMA = pa.schema(
    [("k", pa.string()), ("x", pa.float64()), ("v", pa.int64()), ("i", pa.int32()), ("ok", pa.bool_())]
)  # fmt: skip
VALUES = (
    "null", "true", "0", "-0", "-0.0", "7", "2147483648", "9223372036854775807", "9223372036854775808", "1.5", "1e3",
    "1e400", "NaN", "-INF", "+Infinity", '""', '"a"', '"\\u00e4"', '"\\ud800"', '"NaN"', '"1"', "[1, 2.50]", '{"b": 1}',
    "{}", "01", "1.", "tru", "'q'", '"a\tb"',
)  # fmt: skip
RECORDS = (
    b"", b"   ", b"null", b"[]", b'[{"v": 1}]', b"{", b"}", b"{}", b'{"v": 1}{"v": 2}', b'{"v": 1} tail', b'{"v": 1}}',
    b'{"v": 1, "v": 2}', b'{"v": 1, "v": "a"}', b'{"v": "a", "v": 1}', b'{"v": 1, "v": null}', b'\xef\xbb\xbf{"v": 1}',
    b'\n {"v": 1}\r\n', b'{"k": "}', b'{", "v": 1}', b'{"k": "\xff"}', b'{"\xff": 1, "v": 2}', b'{"v": 1}\x00',
    b'{"k": "\xc3\xa4\xf0\x9f\x98\x80"}', b'{"\\u0076": 5}', b"{'v': 1}", b'{"v": 1,}', b'{"k":\n{"a":{}\n}}',
)  # fmt: skip


def read(*records: bytes | None) -> list[tuple[dict[str, object], str | None]]:
    """Fields that are not NULL, and the text of a bad record."""
    found = decode_values(JsonCodec(), pa.array(records, pa.binary()), SCHEMA, 1 << 24)
    rows = [{name: value for name, value in row.items() if value is not None} for row in found.columns.to_pylist()]
    return list(zip(rows, found.bad.to_pylist(), strict=True))


def made(seed: int, count: int) -> list[bytes | None]:
    """Mostly good records, some with odd values, some that are none."""
    rng = random.Random(seed)
    found: list[bytes | None] = []
    for number in range(count):
        named = {"k": '"a"', "x": "0.5", "v": str(number), "i": "3", "ok": "true"}
        if rng.random() < 0.1:
            named |= {name: rng.choice(VALUES) for name in rng.sample([*named, "other"], 2)}
        record = "{" + ",".join(f'"{name}":{value}' for name, value in named.items()) + "}"
        found.append(rng.choice([None, *RECORDS]) if rng.random() < 0.05 else record.encode())
    return found


def nasty_value(rng: random.Random, depth: int = 0) -> str:
    """Any text that is a value of JSON, or nearly."""
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind < 3:
        return rng.choice(VALUES)
    if kind == 3:
        exponent = rng.choice(["", "e3", "E-2", "e+0", "e400", "e-400", ".", ".0", ".50e1"])
        return (
            rng.choice(["", "-", "+"]) + str(rng.choice([0, 1, 127, 128, 2**31, 2**63 - 1, 2**63, 10**30])) + exponent
        )
    if kind == 4:
        return rng.choice(
            ["Inf", "-Inf", "Infinity", "INF", "nan", '"Infinity"', '"-INF"', '"Inf"', "null", "false", "9" * 1001]
        )
    if kind == 5:
        pieces = [
            "a",
            "ä",
            "\U0001f600",
            "\\ud83d\\ude00",
            "\\udc00",
            "\\u0000",
            "\\n",
            '\\"',
            "\\\\",
            "{",
            "}",
            '\\"v\\":',
            "\x00",
            "\\q",
        ]
        return '"' + "".join(rng.choices(pieces, k=rng.randrange(5))) + '"'
    inner = [nasty_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 6:
        return "[" + ", ".join(inner) + "]"
    if kind == 7:
        return "{" + ",".join(f'"{rng.choice("vqk")}" :{value}' for value in inner) + "}"
    return "[" * 600 + "]" * rng.choice([600, 600, 599])


def nasty(rng: random.Random) -> bytes:
    """An object with a few nasty values, names that repeat, white space; now and then it is cut off or goes on."""
    space = rng.choice(["", "", " ", "\t", "\r\n", "\x0b"])
    names = ["k", "x", "v", "i", "ok", "other", "\\u0076", "\\u006b"]
    good = {"k": '"a"', "x": "0.5", "v": "12", "i": "3", "ok": "true"}
    fields = [(name, good[name]) for name in rng.sample(list(good), 3)]
    fields += [(rng.choice(names), nasty_value(rng)) for _ in range(rng.randrange(3))]
    rng.shuffle(fields)
    record = space + "{" + f"{space},".join(f'"{name}"{space}:{value}' for name, value in fields) + "}" + space
    found = record.encode("utf-8", "surrogatepass")
    cut = rng.choice([None] * 8 + [rng.randrange(len(found) + 1)])
    return found[:cut] + rng.choice([b""] * 12 + [b"}", b" {", b"\x00", b"\xff", b',"v":1}', b'{"v":2}'])


@pytest.mark.parametrize("seed", range(6))
def test_nasty_records_are_read_by_columns_as_by_the_record_reader(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "FEW_RECORDS", 1)
    rng = random.Random(seed)
    records = [record for _ in range(150) for record in [nasty(rng)] * 2] + [b'{"v": 1}'] * 20
    rng.shuffle(records)
    reader = RecordReader(SCHEMA)
    for record, got in zip(records, read(*records), strict=True):
        fields, good = reader(record)
        there = {name: fields[name] for name in SCHEMA.names if fields.get(name) is not None}
        assert repr(got) == repr((there, None if good else record.decode("utf-8", "replace"))), record[:200]


@pytest.mark.parametrize("value", ["-0.0", "Inf", "9" * 1001, "1e400", '"Info"', "NaN"])
def test_a_block_of_one_odd_value_is_read_as_spark_does(value: str) -> None:
    """Arrow takes some of them otherwise, and then in silence."""
    for name in ("x", "q", "k"):
        records = [f'{{"v": {number}, "{name}": {value}}}'.encode() for number in range(40)]
        exact = [RecordReader(SCHEMA)(record) for record in records]
        assert [bad is None for _, bad in read(*records)] == [good for _, good in exact]
        wanted = [{field: fields[field] for field in SCHEMA.names if field in fields} for fields, _ in exact]
        assert repr([row for row, _ in read(*records)]) == repr(wanted)


@pytest.mark.parametrize("seed", range(4))
def test_the_columnar_way_gives_what_the_exact_one_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records = made(seed, 3000)
    by_columns = read(*records)
    monkeypatch.setattr(decoding, "by_arrow", lambda *_: None)
    assert list(map(repr, by_columns)) == list(map(repr, read(*records)))


def test_good_records_are_read_by_columns_however_many_bad_ones_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[int] = []
    exact = decoding._one_by_one

    def counted(records: list[bytes | None], *rest: object) -> Decoded:
        slow.append(len(records))
        return exact(records, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(decoding, "_one_by_one", counted)
    kinds = (
        b"bad", b'{"v": "bad"}', b'{"v": "\xff"}', b'{"v": 1, "k": "a', b'{"q": [{"r": {}}], "v',
        b'{"v": 1.5, "i": [2]}', b'{"i": 2147483648, "v": 1}',
    )  # fmt: skip
    records = [b' {"v": 1, "q": [{"r": "a"}]}'] * 30_000
    records[::100] = [kinds[number % len(kinds)] for number in range(300)]
    found = read(*records)
    assert [number for number, (_, bad) in enumerate(found) if bad is not None] == list(range(0, 30_000, 100))
    assert sum(slow) == 0

    slow.clear()
    texts = {b'{"v": 1, "k": 17}': "17", b'{"v": 1, "k": true}': "true", b'{"v": 1, "k": -3}': "-3"}
    records = [b'{"v": 1, "k": "a"}'] * 3_000 + [record for record in texts for _ in range(100)] + [b'{"v": 1,}'] * 100
    found = read(*records)
    assert [row["k"] for row, _ in found[3_000:3_300]] == [text for text in texts.values() for _ in range(100)]
    assert {bad for _, bad in found} == {None, '{"v": 1,}'}
    assert sum(slow) == 0, "numbers in a text column and commas at the end"

    found = read(*[b'{"v": 1, "k": "a"}'] * 3_000, *[b'{"v": 1, "v": 2}'] * 50)
    assert [row["v"] for row, _ in found[-50:]] == [2] * 50
    assert sum(slow) == 50, "of all records only those that have a name twice"


@pytest.mark.parametrize(
    ("record", "fields", "bad"),
    [
        (None, {}, ""),
        (b"", {}, ""),
        (b"  ", {}, "  "),
        (b"null", {}, "null"),
        (b"[]", {}, "[]"),
        (b'{"k": "\xff"}', {}, '{"k": "\ufffd"}'),
        (b'{"v": 1, "v": "a", "i": 2}', {"v": 1, "i": 2}, '{"v": 1, "v": "a", "i": 2}'),
        (b'{"v": "a", "v": 1}', {"v": 1}, '{"v": "a", "v": 1}'),
        (b'{"v": 1, "v": 2}', {"v": 2}, None),
        (b'{"v": 1}{"v": 2}', {"v": 1}, None),
        (b'{"v": 9223372036854775808}', {}, '{"v": 9223372036854775808}'),
        (b'{"v": 1.0}', {}, '{"v": 1.0}'),
        (b'{"v": 1, "q": -INF}', {"v": 1}, None),
        (b'{"v": 1, "q": INF}', {}, '{"v": 1, "q": INF}'),
        (b'{"x": -0}', {"x": 0.0}, None),
        (b'{"x": 99999999999999999999}', {"x": 1e20}, None),
        (b'{"k": 1.50, "v": 2}', {"k": "1.5", "v": 2}, None),
        (b'{"k": {"b": [1, 2.50, null]}}', {"k": '{"b":[1,2.5,null]}'}, None),
        (b'{"k": "\\ud800"}', {"k": "?"}, None),
        (b"{'v': 1}", {}, "{'v': 1}"),
    ],
)
def test_messages_are_read_as_spark_does(record: bytes | None, fields: dict[str, object], bad: str | None) -> None:
    assert repr(read(record)) == repr([(fields, bad)])


def test_two_objects_in_one_record_do_not_stand_for_a_record_without() -> None:
    """As many objects as records are there, but not one each."""
    assert read(b'{"v": 1}{"v": 2}', b" ") == [({"v": 1}, None), ({}, " ")]
    broken = [b'{"k": "}', b'{", "v": 1}', b'{"v": 2}{"v": 3}']
    assert [bad is None for _, bad in read(*broken)] == [False, False, True]


def lines_of(path: Path, text: bytes, max_bytes: int = 1 << 24) -> list[tuple[object, str | None]]:
    """The value of `v`, and the text of a bad record, for each record of a file."""
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    parts = list(read_file(InputFile(str(path)), SCHEMA, max_bytes))
    rows = [row["v"] for part in parts for row in part.columns.to_pylist()]
    return list(zip(rows, [text for part in parts for text in part.bad.to_pylist()], strict=True))


def test_two_objects_on_one_line_of_a_file_do_not_stand_for_a_line_without(tmp_path: Path) -> None:
    assert lines_of(tmp_path / "a.json", b'{"v": 1}{"v": 2}\n\n{"v": 3}\n') == [(1, None), (3, None)]


ALONE = (
    b"null", b"true", b"1", b'"x"', b"[]", b"[null]", b'[{"v": 1}]', b'[{"v": 1}, {"v": 2}]', b"{]}", b"\x00", b"}{",
    b'{"v"\x00: 1}', b'{"k": "\\x"}', b'{"k": "\\u12"}', b"[" * 100_000, b'{"k": ' * 100_000,
    b'{"q": ' + b"[" * 1001 + b"]" * 1001 + b"}", b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
)  # fmt: skip
FINE = (
    b'{"v": null}', b"{}", b'{"q": null, "v": null}', b'{"k": null, "q": [null, {"a": null}]}', b'{"v": null}\x00',
    b'{"q": ' + b"[" * 999 + b"]" * 999 + b"}", b'{"q": ' + b"[" * 999 + b"]" * 999 + b', "v": null}',
)  # fmt: skip


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_a_file_of_one_record_of_any_kind(tmp_path: Path, ending: bytes) -> None:
    """What is no object is bad, also an array of objects; nothing of this crashes Arrow or overflows a stack."""
    for number, record in enumerate(ALONE):
        assert lines_of(tmp_path / f"{number}.json", record + ending) == [(None, record.decode())], record[:30]
    for number, record in enumerate(FINE):
        assert lines_of(tmp_path / f"{number}.json", record + ending) == [(None, None)], record[:30]


@pytest.mark.parametrize("text", [b"", b"\n", b"\n\r\n \t\n\v\f\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_file_of_blank_lines_has_no_record(tmp_path: Path, text: bytes) -> None:
    assert lines_of(tmp_path / "a.json", text) == []


def test_a_byte_order_mark_begins_a_file_and_no_other_line(tmp_path: Path) -> None:
    found = lines_of(tmp_path / "a.json", b'\xef\xbb\xbf{"v": 1}\n\xef\xbb\xbf{"v": 2}\n')
    assert found == [(1, None), (None, '\ufeff{"v": 2}')]


@pytest.mark.parametrize("chunk", [7, 50, 1000])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_a_record_that_is_too_long_is_bad_and_its_head_is_kept(
    tmp_path: Path, chunk: int, ending: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", chunk)
    long = b'{"k": "' + "ä".encode() * 300 + b'", "v": 2}'
    lines = [b'{"v": 1}', long, b"  " * 200, b'{"v": 3}', long[:40], long]
    found = lines_of(tmp_path / "a.json.gz", ending.join(lines), max_bytes=40)
    head = f"longer than max_record_bytes (40): {long.decode()[:100]}"
    assert found == [(1, None), (None, head), (3, None), (None, long[:40].decode("utf-8", "replace")), (None, head)]
    kafka = decode_values(JsonCodec(), pa.array([b'{"v": 1}', long, None], pa.binary()), SCHEMA, 40)
    assert kafka.bad.to_pylist() == [None, head, ""]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"), (100.0, "100.0"), (0.1, "0.1"), (0.001, "0.001"), (0.0009, "9.0E-4"), (1e-5, "1.0E-5"),
        (1e7, "1.0E7"), (123456789.125, "1.23456789125E8"), (-1234567.0, "-1234567.0"), (5e-324, "4.9E-324"),
        (-0.0, "-0.0"), (float("inf"), '"Infinity"'), (["a\x1f\n/ä\U0001f600"], '["a\\u001F\\n/ä\\uD83D\\uDE00"]'),
    ],
)  # fmt: skip
def test_what_is_no_text_is_written_as_java_writes_it(value: object, text: str) -> None:
    assert rewritten(value) == text


def test_records_of_any_values_survive() -> None:
    rng = random.Random(3)
    rows = [{"k": rng.choice(["a", "ä", '"', "\\", "\n"]), "v": number, "x": rng.random()} for number in range(500)]
    assert [row for row, _ in read(*(json.dumps(row).encode() for row in rows))] == rows
