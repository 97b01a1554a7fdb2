"""One micro-batch on the driver: read the shards' reports, check the accounting, write sinks, then the ledger entry.

Spark commits the batch after this returns. If the process dies in between, the batch is replayed with the same id, the
same rows and the same results, and sinks keep one copy.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.checkpoint.ledger import Entry, Ledger, add_totals
from windowpane.checkpoint.reinjection import Round
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.core.accounting import Accounting
from windowpane.spark.fold_stage import BEFORE
from windowpane.spark.gathering import Gathered, Gathering
from windowpane.spark.outputs import ResultFrame
from windowpane.spark.reports import Reports
from windowpane.spark.side_output import SideOutput
from windowpane.spark.unpacking import SideRecords


@dataclass
class BatchRunner:
    """What foreachBatch calls."""

    spark: SparkSession
    results: ResultFrame
    ledger: Ledger
    timestamp_us: Callable[[int], int]
    """The timestamp that Spark has recorded for a batch; a replayed batch has the same one."""
    sinks: Sequence[Sink]
    side: SideOutput = field(default_factory=SideOutput)
    watch: Callable[[Entry], None] = lambda _entry: None
    transform: str = ""
    run_id: Callable[[], str] = lambda: ""
    """Whose batches these are, for sinks that keep one copy: ids of batches are counted per checkpoint."""
    unnamed_until: int = -1
    """The last batch that an earlier version may have written under a name without the run."""
    resumed: int | None = None
    """The first batch after a restart. An attempt that was never committed may have left rows under its id: a graceful
    end that did not come to its end, for one. Sinks that keep one copy are given the batch even if it has no rows."""
    damaged: Callable[[int], Mapping[str, str]] = lambda _batch_id: {}
    """Files of a batch that could not be read, with the reason: an error row for each."""

    def __post_init__(self) -> None:
        self._gathering = Gathering(self.spark, self.results)

    def _tell_tasks(self, batch_id: int, before: Entry | None) -> None:
        """No task of the batch has started yet: tell them its timestamp, and the watermark that rows are judged by."""
        said = {
            "batch": batch_id,
            "clock_us": self.timestamp_us(batch_id),
            "watermark_us": before.watermark_us if before else None,
            "first_arrival": Entry.next_arrival(before, batch_id),
        }
        self.spark.sparkContext.setLocalProperty(BEFORE, json.dumps(said))

    def run(self, packed: DataFrame, batch_id: int, *, final: bool = False) -> None:
        """Process one batch of the merge stage's output."""
        started, before = time.monotonic(), self.ledger.read(batch_id - 1)
        if not final:
            self._tell_tasks(batch_id, before)
        gathered = self._gathering.gather(packed)
        job = time.monotonic() - started
        try:
            entry, aside = self._account(batch_id, before, gathered, final=final)
            self._write(gathered, entry)
            self._write_side_rows(gathered, entry, aside)
        finally:
            gathered.release()
        took = time.monotonic() - started
        spent = entry.spent | {"job": round(job, 6), "sink": round(took - job, 6)}
        entry = replace(entry, seconds=round(took, 3), spent=spent, outbox=self.side.handed_over(batch_id))
        self.ledger.write(entry)
        self.watch(entry)

    def _account(self, batch_id: int, before: Entry | None, gathered: Gathered, *, final: bool) -> tuple[Entry, Round]:
        """Add up what the shards report; InternalError when rows do not add up."""
        reports = Reports.of(gathered.reports)
        damaged = 0 if final else len(self.damaged(batch_id))
        clock_us = reports.clock_us(before.clock_us if before else 0)
        elapsed_us = clock_us - before.clock_us if before else 0
        side = reports.side()
        rows = tuple(gathered.side()) if self.side.wanted(side) else ()
        aside = Round(rows) if final else self.side.going_round(rows, elapsed_us)
        side = side + Counter(error=damaged) - Counter(aside.counts)
        waiting = (before.reinjecting if before else 0) + sum(aside.counts.values()) - reports.read_again
        counts = reports.counts + Accounting(in_=damaged - reports.read_again, error=damaged, buffered=waiting)
        # Shards that are sent nothing, as by files without rows, report nothing and keep what they have.
        held = before.accounting["buffered"] - before.reinjecting if before and not reports.shards else 0
        counts = counts.less(aside.counts) + Accounting(buffered=held)
        counts.check(before.accounting["buffered"] if before else 0)
        entry = Entry(
            batch_id=batch_id,
            clock_us=clock_us,
            watermark_us=reports.watermark_us(before.watermark_us if before else None),
            accounting=counts.as_dict(),
            totals=add_totals(before, counts),
            side=dict(side),
            dropped=dict(side - Counter(self.side.allowed(side, elapsed_us))),
            undelivered=self.side.undelivered(),
            reinjected=dict(aside.counts),
            reinjecting=waiting,
            final=final,
            arrivals=Entry.next_arrival(before, batch_id) + reports.numbered,
            **reports.measures(before),
        )
        return entry.summed(before), aside

    def _write(self, gathered: Gathered, entry: Entry) -> None:
        takers = [sink for sink in self.sinks if entry.results or self._clears(sink, entry)]
        if takers:
            table = gathered.table()
            batch = SinkBatch(
                entry.batch_id, partial(self._results, gathered, table), transform=self.transform, table=table,
                rows=entry.results, run=self.run_id(), final=entry.final,
                was_unnamed=entry.batch_id <= self.unnamed_until,
            )  # fmt: skip
            for sink in takers:
                sink.write(self._identified(batch, gathered) if sink.wants_identity else batch)

    def _identified(self, batch: SinkBatch, gathered: Gathered) -> SinkBatch:
        """With the columns that say which emission a row is, for a sink that asks for them."""
        results = self.results
        if not results.has_identity:
            return batch
        build = partial(results.build, gathered.emissions(), identified=True)
        return replace(batch, build=build, table=None, identified=True)

    def _results(self, gathered: Gathered, table: pa.Table | None) -> DataFrame:
        if table is not None:
            return self.spark.createDataFrame(table)
        return self.results.build(gathered.emissions())

    def _clears(self, sink: Sink, entry: Entry) -> bool:
        return entry.batch_id == self.resumed and sink.delivery == "exactly_once"

    def _write_side_rows(self, gathered: Gathered, entry: Entry, aside: Round) -> None:
        """Side rows to their channels, which deliver them later, and back into the input."""
        allowed = {kind: count - entry.dropped.get(kind, 0) for kind, count in entry.side.items()}
        self.side.hand_over(
            entry.batch_id, aside.rows, allowed,
            error_records=partial(self._error_records, gathered, entry), clear=entry.batch_id == self.resumed,
            final=entry.final,
        )  # fmt: skip
        if self.side.reinjection is not None:
            self.side.reinjection.put(entry.batch_id, aside.lines)

    def _error_records(self, gathered: Gathered, entry: Entry, side_records: SideRecords) -> list[str]:
        """Records of what is no row of a source: emissions that cannot be evaluated, files that cannot be read."""
        texts = []
        if entry.results and not self.results.is_plain:
            bad = self.results.error_records(gathered.emissions(), entry.clock_us, entry.watermark_us, self.transform)
            texts += [row[0] for row in bad.collect()] if bad is not None else []
        damaged = {} if entry.final else self.damaged(entry.batch_id)
        return texts + (side_records.of_files(damaged, entry.clock_us, entry.watermark_us) if damaged else [])
