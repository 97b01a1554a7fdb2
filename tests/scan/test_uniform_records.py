"""Records that are alike are read by a template: the values are those of Arrow's parser, or nothing is read."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from windowpane.scan.json import uniform_records
from windowpane.scan.json.arrow_parser import by_arrow
from windowpane.scan.json.decoding import decode
from windowpane.scan.json.uniform_records import by_template

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string()), ("i", pa.int32()), ("absent", pa.string())])
COMPACT = (",", ":")
FEWEST = 64


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniform_records, "FEWEST", FEWEST)


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)

    def integer(digits: int) -> int:
        return rng.choice([0, 1, -1, rng.randint(-(10**digits) + 1, 10**digits - 1)])

    return [
        {
            "a": integer(rng.randint(1, 16)), "x": integer(3), "s": rng.choice(["", "text", "ä€😀", "a" * 99, "{},: "]),
            "other": "".join(rng.choices("abc def", k=rng.randint(0, 20))), "i": integer(9),
        }
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("separators", [COMPACT, (", ", ": "), (" , ", " : ")])
@pytest.mark.parametrize("count", [FEWEST, 1000])
def test_values_are_those_of_the_parser(count: int, separators: tuple[str, str]) -> None:
    found = rows(count, count)
    values = [json.dumps(row, separators=separators, ensure_ascii=False).encode() for row in found]
    records = pa.array([b"before", *values])[1:]
    columns = by_template(records, SCHEMA)
    assert columns is not None
    assert columns.to_pylist() == [{name: row.get(name) for name in SCHEMA.names} for row in found]
    assert columns.equals(by_arrow(records, SCHEMA))
    only = by_template(records, pa.schema([]))
    assert only is not None
    assert only.num_columns == 0


GOOD = b'{"a":12,"x":5,"s":"text","other":"o","i":7}'


@pytest.mark.parametrize(
    "odd",
    [
        b'{"a":012,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":-0,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":-,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":1.5,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":1e2,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":null,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":12345678901234567,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":12,"x":0x5,"s":"text","other":"o","i":7}',
        b'{"a":12,"x":5,"s":"te\\nxt","other":"o","i":7}',
        b'{"a":12,"x":5,"s":"te\nxt","other":"o","i":7}',
        b'{"a":12,"x":5,"s":"te\xffxt","other":"o","i":7}',
        b'{"a":12,"x":5,"s":text,"other":"o","i":7}',
        b'{"a":12,"x":5,"s":7,"other":"o""","i":7}',
        b'{"a":12,"x":5,"a":"text","other":"o","i":7}',
        b'{"a":12,"x":5,"s":"text","other":"o","i":2147483648}',
        b'{"a":12,"x":5,"s":"text","other":"o","i":7}}',
        b'{"a":12,"x":5,"s":"text","other":"o","i":7} ',
        b' {"a":12,"x":5,"s":"text","other":"o","i":7}',
        b'{"a":12,"x":5,"s":"text","other":"o","i":7',
        b'{"x":5,"a":12,"s":"text","other":"o","i":7}',
        b'{"a":12,"x":5,"s":"text","other":"o"}',
        b'"a":12,"x":5,"s":"text","other":"o","i":7}{',
        b'{"a":12,"x":5,"s""text","other":"o":,"i":7}',
        b"{}", b"", b'"', b'{"a":12,"x":5:"s":"text","other":"o","i":7}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 1, FEWEST + 5])
def test_one_odd_record_leaves_all_to_the_parser(odd: bytes, at: int) -> None:
    """Also where other records make up for what is odd: a quote too many here, one too few there."""
    values = [GOOD] * (2 * FEWEST)
    values[at] = odd
    records = pa.array(values)
    columns = by_template(records, SCHEMA)
    assert columns is None or columns.equals(by_arrow(records, SCHEMA))
    if at:
        assert columns is None


def test_records_that_are_cut_elsewhere_are_not_alike() -> None:
    """The bytes of all records together are those of good records, but each begins where another ends."""
    whole = GOOD * (2 * FEWEST)
    shifted = [whole[at - 3 : at + len(GOOD) - 3] for at in range(len(GOOD), len(whole) - len(GOOD), len(GOOD))]
    records = pa.array([GOOD, *shifted])
    assert by_template(records, SCHEMA) is None


def test_other_types_are_left_to_the_parser() -> None:
    records = pa.array([GOOD] * FEWEST)
    for name, kind in [("a", pa.string()), ("s", pa.int64()), ("a", pa.float64()), ("s", pa.bool_())]:
        assert by_template(records, pa.schema([(name, kind)])) is None
    assert by_template(records[: FEWEST - 1], SCHEMA) is None


@pytest.mark.parametrize("seed", range(20))
def test_decoding_gives_the_same_with_and_without_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    values = [json.dumps(row, separators=COMPACT).encode() for row in rows(200, seed)]
    for _ in range(rng.randint(0, 2)):
        at = rng.randrange(200)
        cut = rng.randrange(len(values[at]))
        values[at] = values[at][:cut] + rng.randbytes(1) + values[at][cut + rng.randint(0, 1) :]
    records = pa.array(values)
    found = decode(records, SCHEMA)
    monkeypatch.setattr("windowpane.scan.json.decoding.by_template", lambda *_: None)
    plain = decode(records, SCHEMA)
    assert (found.columns.to_pylist(), found.bad.to_pylist()) == (plain.columns.to_pylist(), plain.bad.to_pylist())
