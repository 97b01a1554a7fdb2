"""One micro-batch on the driver: read the shards' reports, check the accounting, write sinks, then the ledger entry.

Spark commits the batch after this returns. If the process dies in between, the batch is replayed with the same id, the
same rows and the same results, and sinks keep one copy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.core.accounting import Accounting
from windowpane.core.wire import unpack_frames
from windowpane.spark.dataflow import Dataflow
from windowpane.spark.gathering import Gathered, Gathering
from windowpane.spark.ledger import Entry, Ledger, add_totals
from windowpane.spark.near import BEFORE
from windowpane.spark.reports import measures
from windowpane.spark.unpacking import SideDocuments


@dataclass
class BatchRunner:
    """What foreachBatch calls. `side_sinks` are sinks by name with the kinds routed to each."""

    spark: SparkSession
    dataflow: Dataflow
    ledger: Ledger
    timestamp_us: Callable[[int], int]
    """The timestamp that Spark has recorded for a batch; a replayed batch has the same one."""
    sinks: Sequence[Sink]
    side_sinks: Mapping[str, tuple[Sink, SideDocuments]] = field(default_factory=dict)
    watch: Callable[[Entry], None] = lambda _entry: None
    transform: str = ""
    run_id: Callable[[], str] = lambda: ""
    """Whose batches these are, for sinks that keep one copy: ids of batches are counted per checkpoint."""
    resumed: int | None = None
    """The first batch after a restart. An attempt that was never committed may have left rows under its id: a graceful
    end that did not come to its end, for one. Sinks that keep one copy are given the batch even if it has no rows."""
    damaged: Callable[[int], Mapping[str, str]] = lambda _batch_id: {}
    """Files of a batch that could not be read, with the reason: an error row for each."""

    def __post_init__(self) -> None:
        self._gathering = Gathering(self.spark, self.dataflow.results)

    def _tell_tasks(self, batch_id: int) -> None:
        """No task of the batch has started yet: tell them its timestamp, and the watermark that rows are judged by."""
        before = self.ledger.read(batch_id - 1)
        said = {
            "batch": batch_id,
            "clock_us": self.timestamp_us(batch_id),
            "watermark_us": before.watermark_us if before else None,
        }
        self.spark.sparkContext.setLocalProperty(BEFORE, json.dumps(said))

    def run(self, packed: DataFrame, batch_id: int, *, final: bool = False) -> None:
        """Process one batch of the far stage's output."""
        started = time.monotonic()
        if not final:
            self._tell_tasks(batch_id)
        gathered = self._gathering.gather(packed)
        try:
            entry = self._account(batch_id, gathered.reports, final=final)
            self._write(gathered, entry)
        finally:
            gathered.release()
        entry = Entry(**(vars(entry) | {"seconds": round(time.monotonic() - started, 3)}))
        self.ledger.write(entry)
        self.watch(entry)

    def _account(self, batch_id: int, reports: Sequence[bytes], *, final: bool) -> Entry:
        """Add up what the shards report; InternalError when rows do not add up."""
        before = self.ledger.read(batch_id - 1)
        held = before.accounting["buffered"] if before else 0
        # Shards that are sent nothing, as by files without rows, report nothing and keep what they have.
        counts, metas = Accounting(buffered=0 if reports else held), []
        for report in reports:
            _, shard_counts, meta = unpack_frames(report)
            counts = counts + shard_counts
            metas.append(meta)
        damaged = 0 if final else len(self.damaged(batch_id))
        counts = counts + Accounting(in_=damaged, error=damaged)
        counts.check(held)
        watermarks = [meta["watermark_us"] for meta in metas]
        clock_us = max((int(str(meta["clock_us"])) for meta in metas), default=before.clock_us if before else 0)
        aside = _summed([*metas, {"side": {"error": damaged} if damaged else {}}], "side")
        return Entry(
            batch_id=batch_id,
            clock_us=clock_us,
            watermark_us=_one(watermarks, before.watermark_us if before else None),
            accounting=counts.as_dict(),
            totals=add_totals(before, counts),
            results=sum(int(str(meta["results"])) for meta in metas),
            side=aside,
            dropped=self._beyond_limits(aside, clock_us - before.clock_us if before else 0),
            maxima=dict(metas[0]["maxima"]) if metas else {},  # type: ignore[call-overload]
            held_by=str(metas[0]["held_by"]) if metas and metas[0]["held_by"] else None,
            final=final,
            **measures(metas),
        ).summed(before)

    def _beyond_limits(self, aside: Mapping[str, int], elapsed_us: int) -> dict[str, int]:
        """Side rows that their channels do not take: a channel takes its limit for every second since the last batch.

        Time is that of the batches, so that a replayed batch drops the same number.
        """
        seconds = max(1.0, elapsed_us / 1_000_000)
        limits = [limit for _, documents in self.side_sinks.values() for limit in documents.limits]
        beyond = {kind: aside.get(kind, 0) - int(limit * seconds) for kind, limit in limits}
        return {kind: count for kind, count in beyond.items() if count > 0}

    def _write(self, gathered: Gathered, entry: Entry) -> None:
        takers = [sink for sink in self.sinks if entry.results or self._clears(sink, entry)]
        if takers:
            table = gathered.table()
            build = partial(self._results, gathered, table)
            batch = replace(self._sink_batch(entry, build), table=table, rows=entry.results)
            for sink in takers:
                sink.write(self._identified(batch, gathered) if sink.wants_identity else batch)
        for sink, documents in self.side_sinks.values():
            records = self._side_records(gathered, entry, documents)
            if records is None and self._clears(sink, entry):
                records = gathered.documents(documents)
            if records is not None:
                count = sum(entry.side.values()) + entry.results
                sink.write(replace(self._sink_batch(entry, partial(_same, records)), documents=True, rows=count))

    def _sink_batch(self, entry: Entry, build: Callable[[], DataFrame]) -> SinkBatch:
        return SinkBatch(entry.batch_id, build, transform=self.transform, run=self.run_id(), final=entry.final)

    def _identified(self, batch: SinkBatch, gathered: Gathered) -> SinkBatch:
        """With the columns that say which emission a row is, for a sink that asks for them."""
        results = self.dataflow.results
        if not results.has_identity:
            return batch
        build = partial(results.build, gathered.emissions(), identified=True)
        return replace(batch, build=build, table=None, identified=True)

    def _results(self, gathered: Gathered, table: pa.Table | None) -> DataFrame:
        if table is not None:
            return self.spark.createDataFrame(table)
        return self.dataflow.results.build(gathered.emissions())

    def _clears(self, sink: Sink, entry: Entry) -> bool:
        return entry.batch_id == self.resumed and sink.delivery == "exactly_once"

    def _side_records(self, gathered: Gathered, entry: Entry, documents: SideDocuments) -> DataFrame | None:
        """Side rows of these kinds, and among the errors the emissions that cannot be evaluated."""
        records = None
        if any(entry.side.get(kind) for kind in documents.kinds):
            allowed = {kind: entry.side[kind] - beyond for kind, beyond in entry.dropped.items()}
            records = gathered.documents(documents.allowing(allowed))
        if entry.results and "error" in documents.kinds and self.dataflow.results.can_fail:
            bad = self.dataflow.results.error_documents(gathered.emissions(), entry.clock_us, entry.watermark_us)
            records = bad if records is None else records.unionAll(bad)
        damaged = {} if entry.final or "error" not in documents.kinds else self.damaged(entry.batch_id)
        if damaged and records is not None:
            texts = documents.of_files(damaged, entry.clock_us, entry.watermark_us)
            records = records.unionAll(self.spark.createDataFrame([(text,) for text in texts], "value string"))
        return records


def _same(frame: DataFrame) -> DataFrame:
    return frame


def _one(watermarks: list[object], otherwise: int | None) -> int | None:
    """Every shard computes the same watermark from the same messages."""
    distinct = set(watermarks)
    assert len(distinct) <= 1, f"shards disagree on the watermark: {distinct}"
    found = distinct.pop() if distinct else otherwise
    return found if isinstance(found, int) else None


def _summed(metas: list[dict[str, object]], name: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for meta in metas:
        for kind, count in dict(meta[name]).items():  # type: ignore[call-overload]
            total[kind] = total.get(kind, 0) + int(count)
    return total
