"""The state protocol: entries over what a host has stored, typed headers, panes that are read when they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from windowpane.core import blob
from windowpane.core.metadata import decode_record, encode_record
from windowpane.core.panes import Panes
from windowpane.core.rows import concat
from windowpane.core.state import EntryMap, Header, Times
from windowpane.errors import StateError


@dataclass(frozen=True)
class Sample:
    count: int
    name: str | None
    maxima: dict[str, int] = field(default_factory=dict)


def test_records_come_back_with_their_types() -> None:
    assert decode_record(Sample, encode_record(Sample(1, None, {"a": 2}))) == Sample(1, None, {"a": 2})
    assert decode_record(Sample, {"count": 1, "name": "x", "unknown": 3}) == Sample(1, "x")


@pytest.mark.parametrize("stored", [{"count": 1}, {"count": None, "name": "x"}, {"count": "1", "name": None}])
def test_other_types_are_refused(stored: Mapping[str, object]) -> None:
    with pytest.raises(StateError) as refused:
        decode_record(Sample, stored)
    assert refused.value.code == "STATE_CORRUPT"


@pytest.mark.parametrize("flat", [False, True])
def test_headers_of_either_layout_are_read(flat: bool) -> None:
    """Some operators of older releases stored their scalars beside the times."""
    times, scalars = Times(5, None), {"count": 1, "name": "x", "maxima": {}}
    older = blob.pack(blob.State(encode_record(times) | scalars))
    data = older if flat else Header.of(Sample(1, "x")).pack(times)
    found, header = Header.unpack(data)
    assert (found, header.read(Sample)) == (times, Sample(1, "x"))


def test_entries_are_apart_from_what_is_stored_until_the_host_takes_them() -> None:
    stored = {"0/": b"header", "0/a": b"a", "1/": b"other"}
    entries = EntryMap(stored)
    own = entries.of_operator(0)
    own.write("b", b"b")
    own.write("c", b"c")
    own.remove("a")
    own.remove("c")
    own.remove("never there")
    assert sorted(own.names()) == ["", "b"]
    assert (own.read(""), own.read("b")) == (b"header", b"b")
    with pytest.raises(KeyError):
        own.read("a")
    assert entries.changes == {"0/a": None, "0/b": b"b"}
    assert entries.merged() == {"0/": b"header", "0/b": b"b", "1/": b"other"}
    assert entries.size() == len(b"headerbother")
    assert stored == {"0/": b"header", "0/a": b"a", "1/": b"other"}


class Counting(EntryMap):
    """Notes which entries are read."""

    def __init__(self, stored: Mapping[str, bytes]) -> None:
        super().__init__(stored)
        self.reads: list[str] = []

    def read(self, name: str) -> bytes:
        self.reads.append(name)
        return super().read(name)


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())})


def merged(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole = concat(batches)
    assert whole is not None
    return whole


def taken_up(stored: Mapping[str, bytes]) -> tuple[Panes, Counting]:
    kept, entries = Panes(merged), Counting(stored)  # type: ignore[arg-type]  # a list is a sequence
    kept.load(entries)
    return kept, entries


def test_a_pane_is_read_when_it_is_needed_and_written_where_it_changed() -> None:
    kept, entries = taken_up({})
    kept.append(10, rows(*range(9)))
    kept.append(20, rows(1, 2))
    kept.save(entries)
    assert entries.changes.keys() == {"10.0.9", "20.0.2"}

    kept, entries = taken_up(entries.merged())
    kept.append(10, rows(9))
    kept.save(entries)
    assert (kept.starts(), entries.reads) == ([10, 20], [])
    assert entries.changes.keys() == {"10.1.1"}

    kept, entries = taken_up(entries.merged())
    assert kept.state(10).column("n").to_pylist() == list(range(10))
    kept.drop(20)
    kept.save(entries)
    assert entries.merged().keys() == {"10.0.10"}
    assert entries.changes.keys() == {"10.0.9", "10.0.10", "10.1.1", "20.0.2"}
    kept, _ = taken_up(entries.merged())
    assert kept.state(10).column("n").to_pylist() == list(range(10))


def test_small_runs_are_merged_with_each_other_and_large_ones_stay() -> None:
    stored: dict[str, bytes] = {}
    reads, most, count = 0, 0, 64
    for number in range(count):
        kept, entries = taken_up(stored)
        kept.append(0, rows(*range(1000)) if not number else rows(number))
        kept.save(entries)
        assert "0.0.1000" not in entries.reads
        reads += len(entries.reads)
        stored = entries.merged()
        most = max(most, len(stored))
    assert most <= 7, "one large run, and a binary counter of the small ones"
    assert reads <= count, "each small run is read once, in the mean"
    assert "0.0.1000" in stored
    assert taken_up(stored)[0].state(0).num_rows == 1000 + count - 1


def test_runs_of_an_older_version_have_no_number_of_rows_in_their_names() -> None:
    kept, entries = taken_up({})
    kept.append(10, rows(1, 2, 3))
    kept.save(entries)
    kept, entries = taken_up({"10.0": entries.merged()["10.0.3"]})
    kept.append(10, rows(4))
    kept.save(entries)
    assert entries.merged().keys() == {"10.0", "10.1.1"}
    kept, entries = taken_up(entries.merged())
    kept.append(10, rows(5, 6, 7, 8))
    kept.save(entries)
    assert entries.merged().keys() == {"10.0.8"}
    assert taken_up(entries.merged())[0].state(10).column("n").to_pylist() == list(range(1, 9))
