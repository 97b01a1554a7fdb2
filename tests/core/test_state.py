"""The state protocol: entries over what a host has stored, typed headers, panes that are read when they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from windowpane.core import blob
from windowpane.core.metadata import decode_record, encode_record
from windowpane.core.panes import Panes
from windowpane.core.rows import joined
from windowpane.core.run_content import Content
from windowpane.core.run_reading import ALL_HASHES
from windowpane.core.runs import SMALL_ROWS
from windowpane.core.segments import DIGEST
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


def taken_up(stored: Mapping[str, bytes]) -> tuple[Panes, Counting]:
    kept, entries = Panes(Content(joined, ("n",))), Counting(stored)
    kept.load(entries)
    return kept, entries


def content(panes: Panes, pane: int) -> list[int]:
    found = panes.state(pane)
    assert found is not None
    values: list[int] = found.column("n").to_pylist()
    return values


def plain_names(names: Iterable[str]) -> set[str]:
    """Without the digests."""
    return {name.partition(DIGEST)[0] for name in names}


def test_a_pane_is_read_when_it_is_needed_and_written_where_it_changed() -> None:
    kept, entries = taken_up({})
    kept.append(10, rows(*range(9)))
    kept.append(20, rows(1, 2))
    kept.save(entries)
    assert plain_names(entries.changes) == {"10.0.0.-.9", "20.0.0.-.2"}

    kept, entries = taken_up(entries.merged())
    kept.append(10, rows(9))
    kept.save(entries)
    assert (kept.starts(), entries.reads) == ([10, 20], [])
    assert plain_names(entries.changes) == {"10.1.1.-.1"}

    kept, entries = taken_up(entries.merged())
    assert content(kept, 10) == list(range(10))
    kept.drop(20)
    kept.save(entries)
    assert plain_names(entries.merged()) == {"10.0.1.-.10"}
    assert plain_names(entries.changes) == {"10.0.0.-.9", "10.0.1.-.10", "10.1.1.-.1", "20.0.0.-.2"}
    kept, _ = taken_up(entries.merged())
    assert content(kept, 10) == list(range(10))


def test_small_runs_are_merged_with_each_other_and_large_ones_stay() -> None:
    stored: dict[str, bytes] = {}
    reads, most, count = 0, 0, 64
    for number in range(count):
        kept, entries = taken_up(stored)
        kept.append(0, rows(*range(1000)) if not number else rows(number))
        kept.save(entries)
        assert "0.0.0.-.1000" not in plain_names(entries.reads)
        reads += len(entries.reads)
        stored = entries.merged()
        most = max(most, len(stored))
    assert most <= 7, "one large run, and a binary counter of the small ones"
    assert reads <= count, "each small run is read once, in the mean"
    assert "0.0.0.-.1000" in plain_names(stored)
    assert len(content(taken_up(stored)[0], 0)) == 1000 + count - 1


@pytest.mark.parametrize("name", ["10.0", "10.0.3"])
def test_runs_of_older_versions_are_read_and_rewritten(name: str) -> None:
    kept, entries = taken_up({})
    kept.append(10, rows(1, 2, 3))
    kept.save(entries)
    (data,) = entries.merged().values()
    kept, entries = taken_up({name: data})
    kept.append(10, rows(4))
    kept.save(entries)
    assert plain_names(entries.merged()) == {name, "10.1.1.-.1"}
    kept, entries = taken_up(entries.merged())
    kept.append(10, rows(5, 6, 7, 8))
    kept.save(entries)
    assert plain_names(entries.merged()) == {"10.0.2.-.8"}
    assert content(taken_up(entries.merged())[0], 10) == list(range(1, 9))


def test_a_large_run_of_an_older_version_is_sorted_when_the_pane_next_changes() -> None:
    kept, entries = taken_up({})
    kept.append(10, rows(*range(SMALL_ROWS - 1)))
    kept.save(entries)
    (data,) = entries.merged().values()
    kept, entries = taken_up({f"10.0.{SMALL_ROWS}": data})
    kept.append(10, rows(-1, -2))
    kept.save(entries)
    assert plain_names(entries.merged()) == {f"10.0.1.{ALL_HASHES:x}.{SMALL_ROWS + 1}"}
    assert sorted(content(taken_up(entries.merged())[0], 10)) == [-2, -1, *range(SMALL_ROWS - 1)]
