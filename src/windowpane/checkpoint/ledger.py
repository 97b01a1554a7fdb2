"""The ledger: what each micro-batch read, emitted and routed to side outputs, and the watermark after it.

One JSON file per batch, written before Spark commits the batch. A replayed batch writes its entry again. If several
transforms share a job, the file has an entry for each, so that all of them have seen the same batches. Each file has a
digest of itself and that of the file before it (`ledger_chain.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter

from windowpane.checkpoint.lease import lease_lost
from windowpane.checkpoint.ledger_chain import CHAIN, ChainCheck, chained, check_chain, link_of
from windowpane.checkpoint.records import FORMAT, encoded, read_object, typed
from windowpane.checkpoint.store import Store, corrupt
from windowpane.core.accounting import Accounting

KEPT = 1000
"""Entries kept in full; totals go back to the first batch."""
_SEVERAL, _VERSIONS = "transforms", "versions"
"""The keys of the entries by transform, if several share a job, and by version, if a transform has several."""


@dataclass(frozen=True)
class Entry:
    """A micro-batch. `totals` are sums over all batches up to this one."""

    batch_id: int
    clock_us: int
    watermark_us: int | None
    accounting: dict[str, int]
    totals: dict[str, int]
    results: int
    side: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    """Side rows beyond their channel's rate limit or capacity, by kind: counted above, and not written."""
    undelivered: dict[str, int] = field(default_factory=dict)
    """Side rows of earlier batches that an unreachable sink has not taken, by sink."""
    outbox: dict[str, int] = field(default_factory=dict)
    """Rows that this batch and those before it have put into the outbox, by sink; absent in earlier versions."""
    undelivered_results: dict[str, int] = field(default_factory=dict)
    """Results of this batch and earlier ones that wait for their sink, by sink."""
    result_outbox: dict[str, int] = field(default_factory=dict)
    """Results that this batch and those before it have put into the outbox, by sink."""
    reinjected: dict[str, int] = field(default_factory=dict)
    """Rows that are read again, by the kind they had: counted as buffered."""
    reinjecting: int = 0
    """Rows in the reinjection queue; a part of the buffered rows."""
    replays: list[int] = field(default_factory=list)
    """Replays whose rows this batch has read: side rows of earlier batches, which count as made."""
    replayed: dict[str, int] = field(default_factory=dict)
    """Their rows, by the kind that they had."""
    maxima: dict[str, int] = field(default_factory=dict)
    latest_us: int | None = None
    """The largest event time of all rows read so far; None in entries of earlier versions."""
    held_by: str | None = None
    open_windows: int = 0
    times: dict[str, int] = field(default_factory=dict)
    """Rows by the origin of their event time, one of `columns.TIME_SOURCES`."""
    future_rows: int = 0
    watermarks: int = 0
    """How often the watermark has advanced since the first batch."""
    state_bytes: int = 0
    seconds: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds by activity: in the workers summed over all tasks, and `job` and `sink` on the driver's clock."""
    shuffled: list[list[int]] = field(default_factory=list)
    """For each shuffle, how many rows or partial results each shard has received."""
    tables: dict[str, int] = field(default_factory=dict)
    """The versions of tables with `refresh` that the batch has read."""
    final: bool = False
    ended: bool = False
    """Of a version of a transform, or a transform that was removed: it has emitted everything, and is gone."""
    skipped: int = 0
    """Of a version: rows that only another version takes."""
    arrivals: int | None = None
    """The arrival number of the next row; None in entries of earlier versions."""
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    """The accounts of windows over the results of others, by name: `window_2` …"""
    stage_totals: dict[str, dict[str, int]] = field(default_factory=dict)
    """Sums of these over all batches up to this one, as `totals`."""
    written: int | None = None
    """Rows that were given to sinks: results that HAVING and the like have left. None if nobody has counted them."""
    refused: int = 0
    """Results that the query could not compute: each is an error without a source row."""
    lateness: dict[str, str] = field(default_factory=dict)
    """By source partition, how many rows which lag would make late: as of `LatenessSketch.encoded`."""
    fence: int = 0
    """The number of the process that wrote the entry among those that have held the checkpoint's lease."""
    sums: dict[str, dict[str, int]] = field(default_factory=dict)
    """Over all batches up to this one: `side`, `dropped`, `times`, `reinjected`, `replayed`, and under `rows` results,
    future rows and refused results.
    """

    @staticmethod
    def next_arrival(before: Entry | None, batch_id: int) -> int:
        """The first arrival number of a batch. Earlier versions numbered the rows of batch n from n << 40."""
        return before.arrivals if before and before.arrivals is not None else batch_id << 40

    def summed(self, before: Entry | None) -> Entry:
        """This entry with `sums` added to those of the entry before."""
        own = {"side": self.side, "dropped": self.dropped, "times": self.times, "reinjected": self.reinjected}
        own |= {"replayed": self.replayed} if self.replayed or (before and "replayed" in before.sums) else {}
        own["rows"] = {"results": self.results, "future_rows": self.future_rows, "refused": self.refused}
        earlier = before.sums if before else {}
        sums = {name: dict(Counter(earlier.get(name, {})) + Counter(counts)) for name, counts in own.items()}
        return replace(self, sums=sums)


class Ledger:
    """Entries by batch id, of a job of one transform or of the transform `tag` of a job of several."""

    def __init__(self, store: Store, tag: str = "") -> None:
        self._store, self._tag = store, tag
        self._digests: dict[int, str | None] = {}
        """Of the last file that was read or written, so that the next one can name it."""

    def read(self, batch_id: int) -> Entry | None:
        """The transform's entry; None if it is not there, StateError if it is damaged."""
        return self.read_all(batch_id).get(self._tag)

    def read_all(self, batch_id: int) -> dict[str, Entry]:
        """The entries of all transforms of the job, by tag."""
        return self.read_with_versions(batch_id)[0]

    def read_with_versions(self, batch_id: int) -> tuple[dict[str, Entry], dict[str, Entry]]:
        """The entries of all transforms, and those of the versions of transforms that have several, by tag."""
        content = read_object(self._store, _name(batch_id), {"format": int, "batch_id": int})
        if content is None:
            return {}, {}
        self._digests = {batch_id: link_of(content).own}
        content.pop("format")
        content.pop(CHAIN, None)
        versions = self._entries(batch_id, content.pop(_VERSIONS, {}), _VERSIONS)
        if _SEVERAL not in content:
            return {"": self._entry(batch_id, content)}, versions
        return self._entries(batch_id, content[_SEVERAL], _SEVERAL), versions

    def _entries(self, batch_id: int, several: object, key: str) -> dict[str, Entry]:
        if not isinstance(several, dict) or not all(isinstance(each, dict) for each in several.values()):
            raise corrupt(self.address(batch_id), f"`{key}` does not have an entry for each transform")
        return {tag: self._entry(batch_id, each) for tag, each in several.items()}

    def _entry(self, batch_id: int, content: dict[str, Any]) -> Entry:
        unknown, address = content.keys() - Entry.__dataclass_fields__.keys(), self.address(batch_id)
        if unknown:
            raise corrupt(address, f"`{min(unknown)}` is unknown", "a later version of windowpane may have written it")
        entry = typed(_ENTRY, content, address)
        if entry.batch_id != batch_id:
            raise corrupt(address, f"it belongs to batch {entry.batch_id}")
        return entry

    def write(self, entry: Entry) -> None:
        """The entry of a job of one transform."""
        self.write_all({"": entry})

    def write_all(self, entries: Mapping[str, Entry], versions: Mapping[str, Entry] | None = None) -> None:
        """The entries of one batch, by tag. Durable when this returns. A replayed batch replaces its entries.

        `versions`: of transforms that have several, by the tags of their states.

        StateError `LEASE_LOST` if a process that has taken over has written them: the store itself decides.
        """
        first = next(iter(entries.values()))
        content = {"format": FORMAT, **_content(entries, versions or {})}
        linked = chained(content, self._digest(first.batch_id - 1))
        name, data = _name(first.batch_id), encoded(linked)
        if not self._store.exchange(name, data, None):
            known, there = self._store.read(name), self.read_all(first.batch_id)
            is_later = any(each.fence > first.fence for each in there.values())
            if is_later or not self._store.exchange(name, data, known):
                raise lease_lost(self._store.address(name))
        self._digests = {first.batch_id: link_of(linked).own}
        self._store.delete(_name(first.batch_id - KEPT), durable=False)

    def _digest(self, batch_id: int) -> str | None:
        """The digest of a file; None if there is no such file, or if it has none."""
        if batch_id not in self._digests:
            content = read_object(self._store, _name(batch_id), {"format": int})
            self._digests = {batch_id: None if content is None else link_of(content).own}
        return self._digests[batch_id]

    def check_chain(self) -> ChainCheck:
        """Compute the digests of all files again, and compare."""
        contents = ((each, read_object(self._store, _name(each), {"format": int})) for each in self.batch_ids())
        return check_chain((each, content) for each, content in contents if content is not None)

    def last(self) -> Entry | None:
        """The entry with the highest batch id."""
        ids = self.batch_ids()
        return self.read(ids[-1]) if ids else None

    def batch_ids(self) -> list[int]:
        """Batches that have an entry. Other files are ignored."""
        named = (name.partition(".") for name in self._store.names())
        return sorted(int(stem) for stem, _, suffix in named if suffix == "json" and stem.isdigit())

    def address(self, batch_id: int) -> str:
        """Where the entry of a batch is stored."""
        return self._store.address(_name(batch_id))

    def sweep(self) -> None:
        """Remove unfinished writes of killed processes."""
        self._store.sweep()


def _content(entries: Mapping[str, Entry], versions: Mapping[str, Entry]) -> dict[str, Any]:
    beside = {_VERSIONS: {tag: asdict(entry) for tag, entry in versions.items()}} if versions else {}
    if list(entries) == [""]:
        return asdict(entries[""]) | beside
    (batch_id,) = {entry.batch_id for entry in entries.values()}
    return {"batch_id": batch_id, _SEVERAL: {tag: asdict(entry) for tag, entry in entries.items()}} | beside


def _name(batch_id: int) -> str:
    return f"{batch_id:012}.json"


_ENTRY = TypeAdapter(Entry)


def add_totals(before: Mapping[str, int] | None, accounting: Accounting) -> dict[str, int]:
    """Running totals. `buffered` is not summed: it is the present number."""
    totals = dict(before) if before else dict.fromkeys(accounting.as_dict(), 0)
    for name, count in accounting.as_dict().items():
        totals[name] = count if name == "buffered" else totals.get(name, 0) + count
    return totals
