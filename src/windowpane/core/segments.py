"""Where the content of segments is: in memory until it is saved, in entries of the operator's state afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from windowpane.core import blob
from windowpane.core.state import StateEntries

DIGEST = "#"
"""Precedes the digest of the content in the name of an entry. The content under such a name never changes."""
CACHED_SEGMENTS = 4
"""So many segments that were read last stay in memory until the end of the micro-batch."""
ROWS, SUMMARY = "rows", "summary"


@dataclass
class Segment:
    """What is known of a segment without reading it."""

    number: int
    run: int
    level: int
    """Of its run: a merge makes one run of the next level from several of one level."""
    count: int
    begin_us: int
    """The time of its first row."""
    first_us: int
    """Rows before this instant are dropped, or live in another segment."""
    last_us: int
    dead: int = 0
    """How many rows are known to be before `first_us`."""
    size: int = 0
    """Bytes of its entry."""
    name: str | None = None
    """Of its entry; None: it is not stored."""
    summary: str | None = None
    """The entry of its summary, if that is stored."""

    @property
    def is_whole(self) -> bool:
        return self.first_us == self.begin_us


class SegmentStore:
    """The rows of segments, and what is derived from them, each read when it is asked for."""

    def __init__(self, name: str, entries: StateEntries | None = None) -> None:
        self._name, self._entries = name, entries
        self._unsaved: dict[int, pa.RecordBatch] = {}
        self._summaries: dict[int, pa.RecordBatch] = {}
        self._cache: dict[int, pa.RecordBatch] = {}
        self._dropped: list[str] = []

    def put(self, number: int, rows: pa.RecordBatch) -> None:
        self._unsaved[number] = rows

    def at_hand(self, number: int) -> pa.RecordBatch | None:
        """The rows of a segment, if they are in memory."""
        return self._unsaved.get(number, self._cache.get(number))

    def is_stored(self, segment: Segment) -> bool:
        return segment.number not in self._unsaved

    def read(self, segment: Segment) -> pa.RecordBatch:
        """All rows of a segment, also dropped ones."""
        found = self.at_hand(segment.number)
        if found is None:
            found = self._cache[segment.number] = self.entry(segment.name, ROWS)
            if len(self._cache) > CACHED_SEGMENTS:
                del self._cache[next(iter(self._cache))]
        return found

    def summary(self, segment: Segment) -> pa.RecordBatch | None:
        """What `summarize` was given for a segment; None if nothing was."""
        if segment.number in self._summaries:
            return self._summaries[segment.number]
        return None if segment.summary is None else self.entry(segment.summary, SUMMARY)

    def summarize(self, segment: Segment, summary: pa.RecordBatch) -> None:
        """Keep a summary of a segment, as long as the segment."""
        self._summaries[segment.number] = summary

    def entry(self, name: str | None, table: str) -> pa.RecordBatch:
        assert self._entries is not None
        assert name is not None
        return blob.unpack(self._entries.read(name)).batches[table]

    def forget(self, segment: Segment) -> None:
        for held in (self._unsaved, self._summaries, self._cache):
            held.pop(segment.number, None)
        self.forget_entries(name for name in (segment.name, segment.summary) if name is not None)

    def forget_entries(self, names: Iterable[str]) -> None:
        self._dropped += names

    @property
    def unsaved_size(self) -> int:
        return sum(rows.nbytes for rows in self._unsaved.values())

    def save(self, segments: Iterable[Segment], entries: StateEntries) -> None:
        """Write what is new, and remove what is gone."""
        for name in self._dropped:
            entries.remove(name)
        for segment in segments:
            if segment.number in self._unsaved:
                data = blob.pack(blob.State({}, {ROWS: self._unsaved[segment.number]}))
                segment.name, segment.size = self._named(f"{segment.number}", data), len(data)
                entries.write(segment.name, data)
            if segment.number in self._summaries:
                data = blob.pack(blob.State({}, {SUMMARY: self._summaries[segment.number]}))
                segment.summary = self._named(f"{segment.number}s", data)
                entries.write(segment.summary, data)
        self._unsaved, self._summaries, self._cache, self._dropped = {}, {}, {}, []
        self._entries = entries

    def _named(self, number: str, data: bytes) -> str:
        return f"{self._name}.{number}{DIGEST}{blake2b(data, digest_size=16).hexdigest()}"
