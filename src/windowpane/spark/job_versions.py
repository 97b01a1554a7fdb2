"""Versions of a transform in a job: where each stands before a micro-batch, and one account of all of them after it.

A version that hands its windows over runs beside the next one until its last window is closed. Then it ends, in a
micro-batch of its own: it emits what is left, and its state is removed. A transform that was removed from the pipeline
ends in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from windowpane.checkpoint.ledger import Entry, add_totals
from windowpane.core.accounting import Accounting
from windowpane.core.lateness import LatenessSketch
from windowpane.core.side import OF, RESULT
from windowpane.core.windows.cut import Cut

Number = TypeVar("Number", int, float)
WHOLE = Cut()


@dataclass(frozen=True)
class Version:
    """A version of a transform. `key` names the transform in the ledger, `tag` the version's state in the job."""

    tag: str
    key: str
    cut: Cut = WHOLE
    ends_us: int | None = None
    """When the watermark has come here, its last window is closed. None for the current version."""
    begins: bool = False
    """Its cut is where the transform begins: no version was before it."""
    leaves: bool = False
    """The pipeline no longer has the transform: all of its versions end at once."""

    @property
    def is_current(self) -> bool:
        return self.cut.until_us is None


@dataclass(frozen=True)
class Standing:
    """The versions that run in a micro-batch, each with its entry of the batch before."""

    before: Mapping[str, Entry | None]
    ending: tuple[str, ...]
    alone: tuple[str, ...]
    """Versions before which none takes rows any more."""

    @classmethod
    def of(
        cls, versions: Sequence[Version], entries: Mapping[str, Entry], of_versions: Mapping[str, Entry]
    ) -> Standing:
        """`entries`, `of_versions`: of the batch before, by transform and by version."""
        before: dict[str, Entry | None] = {}
        ending, alone = list[str](), list[str]()
        for key in dict.fromkeys(each.key for each in versions):
            own = [each for each in versions if each.key == key]
            standing = _before(own, entries.get(key), of_versions)
            running = [each for each in own if each.tag in standing]
            done = [each.tag for each in running if _is_due(each, running, standing)]
            before |= standing
            ending += done
            left = [each for each in running if each.tag not in done]
            alone += [each.tag for each in left[:1] if each.cut.from_us is not None and not each.begins]
        return cls(before, tuple(ending), tuple(alone))


def _before(
    versions: Sequence[Version], whole: Entry | None, of_versions: Mapping[str, Entry]
) -> dict[str, Entry | None]:
    """The entry of each version that runs, by tag. `whole`: of the transform."""
    known = {each.tag: of_versions[each.tag] for each in versions if each.tag in of_versions}
    if len(versions) == 1:
        ended = any(entry.ended for entry in known.values())
        return {} if ended else {versions[0].tag: whole}
    if not known:  # the first hand-over begins with this micro-batch: the state is that of the oldest version
        return {versions[0].tag: whole} | {each.tag: _inherited(whole) for each in versions[1:]}
    # Several changes may have come since the last micro-batch, so several versions may be new.
    latest = [entry for each in versions if (entry := known.get(each.tag)) is not None][-1]
    found = {each.tag: known.get(each.tag) or _inherited(latest) for each in versions}
    return {tag: entry for tag, entry in found.items() if entry is None or not entry.ended}


def _inherited(entry: Entry | None) -> Entry | None:
    """Where a new version begins: at the time that the one before has reached, without rows."""
    if entry is None:
        return None
    none = dict.fromkeys(entry.accounting, 0)
    return Entry(
        entry.batch_id, entry.clock_us, entry.watermark_us, none, dict(none), 0, maxima=entry.maxima,
        latest_us=entry.latest_us, held_by=entry.held_by, watermarks=entry.watermarks, arrivals=entry.arrivals,
    )  # fmt: skip


def _is_due(version: Version, running: Sequence[Version], standing: Mapping[str, Entry | None]) -> bool:
    """Whether a version ends now: one after the other, the oldest first."""
    if version.leaves:
        return True
    entry = standing[version.tag]
    if version.ends_us is None or version is not running[0] or entry is None or entry.watermark_us is None:
        return False
    return entry.watermark_us >= version.ends_us


def own_rows(rows: Sequence[pa.RecordBatch], cut: Cut) -> tuple[tuple[pa.RecordBatch, ...], Counter[str], Counter[str]]:
    """Side rows of a version, how many of each kind are those of another one, and how many of these were read.

    A row may be in windows of two versions. The one on whose side of the cut its time is says what has become of it.
    Results and pairs that cannot be computed are those of the version that has them.
    """
    kept, others, counted = list[pa.RecordBatch](), Counter[str](), Counter[str]()
    for batch in rows:
        times = batch.column("event_us")
        timed = times.is_valid().to_numpy(zero_copy_only=False)
        ts = times.fill_null(0).to_numpy(zero_copy_only=False)
        own = np.where(timed, cut.has(ts), cut.until_us is None)
        places = batch.column(OF).to_numpy(zero_copy_only=False) if OF in batch.schema.names else None
        if places is not None:
            own |= places == RESULT
        kept.append(batch.filter(pa.array(own)))
        away = batch.filter(pa.array(~own))
        for kind in away.column("kind").value_counts().to_pylist():
            others[kind["values"]] += kind["counts"]
            counted[kind["values"]] += kind["counts"] if places is None else 0
    return tuple(kept), others, counted


def united(entries: Sequence[Entry], before: Entry | None) -> Entry:
    """The entry of a transform that has these versions, the current one last. `before`: of the transform.

    Each row is read once. A row that is in windows of both counts as made for the second one, so that
    `read + made = in` holds as it does for each version.
    """
    last = entries[-1]
    accounts = [Accounting(**each.accounting) for each in entries]
    taking = [each.read + entry.skipped for each, entry in zip(accounts, entries, strict=True) if not entry.ended]
    read = min(taking, default=0)
    whole = sum(accounts, Accounting())
    whole = replace(whole, made=whole.in_ - read)
    found = replace(
        last,
        accounting=whole.as_dict(),
        totals=add_totals(before.totals if before else None, whole),
        results=sum(each.results for each in entries),
        side=_added(each.side for each in entries),
        dropped=_added(each.dropped for each in entries),
        undelivered=_added(each.undelivered for each in entries),
        undelivered_results=_added(each.undelivered_results for each in entries),
        open_windows=sum(each.open_windows for each in entries),
        state_bytes=sum(each.state_bytes for each in entries),
        spent=_added(each.spent for each in entries),
        refused=sum(each.refused for each in entries),
        lateness=_united_lateness(entries),
        written=sum(each.written or 0 for each in entries)
        if all(each.written is not None for each in entries)
        else None,
        skipped=0,
        ended=False,
    )
    return found.summed(before)


def _united_lateness(entries: Iterable[Entry]) -> dict[str, str]:
    whole = LatenessSketch()
    for entry in entries:
        whole.merge(LatenessSketch.decoded(entry.lateness))
    return whole.bounded().encoded()


def _added(counts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    total: dict[str, Number] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total[name] + count if name in total else count
    return total
