"""A transform's part of a micro-batch on the driver: add up its shards' reports, check the account, write its sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession

from windowpane.checkpoint.ledger import Entry, add_totals
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.connectors.sinks import SinkBatch
from windowpane.core.accounting import Accounting
from windowpane.core.windows.cut import Cut
from windowpane.spark.gathering import Gathered
from windowpane.spark.job_versions import Version, own_rows
from windowpane.spark.outputs import ResultFrame
from windowpane.spark.recent_rows import RecentRows
from windowpane.spark.reinjection import ReinjectionSplit
from windowpane.spark.replaying import Replaying
from windowpane.spark.reports import Reports, open_runs
from windowpane.spark.result_output import ResultOutput
from windowpane.spark.side_output import SideOutput
from windowpane.spark.unpacking import SideRecords


@dataclass(kw_only=True)
class BatchRunner:
    """Processes what one transform gives in each micro-batch, called by `JobRunner`."""

    spark: SparkSession
    transform: str
    results: ResultFrame
    checkpoint: Checkpoint
    record: PlanRecord
    output: ResultOutput
    side: SideOutput
    lock: RunLock
    """Of the checkpoint, which this process holds."""
    watch: Callable[[Entry], None]
    label: str
    """The transform, and its version if it is not the first: a sink tells batches apart by it."""
    version: Version
    keep_closed_us: int | None = None
    """How long the accumulators of closed windows are kept."""
    tables: Callable[[int], dict[str, int]] = lambda _: {}
    """The versions of static tables that a batch reads."""
    recent: RecentRows = field(default_factory=RecentRows)
    """For the live page."""
    replaying: Replaying | None = None
    """Side rows that are read once more."""

    def before(self, batch_id: int, entry: Entry | None) -> list[int | None]:
        """What tasks must know of the batches before: as in `BatchContext`. `entry`: of the batch before."""
        return [entry.watermark_us if entry else None, Entry.next_arrival(entry, batch_id)]

    def account(
        self, batch_id: int, before: Entry | None, gathered: Gathered, *, final: bool, ends: bool = False,
        cut: Cut | None = None,
    ) -> tuple[Entry, ReinjectionSplit]:  # fmt: skip
        """Add up the reports of all stages and shards; InternalError if rows do not add up.

        `ends`: the version ends with the batch. `cut`: of the version, if others run beside it.
        """
        reports = Reports.of(gathered.reports)
        reports.check_crossings()
        unreadable = 0 if final or ends or not self.version.is_current else len(self.checkpoint.unreadable.of(batch_id))
        clock_us = reports.clock_us(before.clock_us if before else 0)
        elapsed_us = clock_us - before.clock_us if before else 0
        side = reports.side()
        rows = tuple(gathered.side()) if cut or self.side.wanted(side) else ()
        others, counted = Counter[str](), Counter[str]()
        if cut:
            rows, others, counted = own_rows(rows, cut)
        side -= others
        split = ReinjectionSplit(rows) if final else self.side.split(rows, elapsed_us)
        side = side + Counter(error=unreadable) - Counter(split.counts)
        queued = (before.reinjecting if before else 0) + sum(split.counts.values()) - reports.read_again
        counts = reports.counts + Accounting(in_=unreadable - reports.read_again, error=unreadable, buffered=queued)
        # Shards that are sent nothing, as by files without rows, report nothing and keep what they have.
        held = before.accounting["buffered"] - before.reinjecting if before and not reports.shards else 0
        counts = counts.less(split.counts).less(counted) + Accounting(buffered=held, in_=-counted.total())
        counts.check(before.accounting["buffered"] if before else 0)
        stages = _stage_accounts(reports, before)
        replays = self.replaying.taken(reports.replayed) if self.replaying is not None and not final else []
        entry = Entry(
            batch_id=batch_id,
            clock_us=clock_us,
            watermark_us=reports.watermark_us(before.watermark_us if before else None),
            accounting=counts.as_dict(),
            totals=add_totals(before.totals if before else None, counts),
            stages={name: account.as_dict() for name, account in stages.items()},
            stage_totals={
                name: add_totals(before.stage_totals.get(name) if before else None, account)
                for name, account in stages.items()
            },
            side=dict(side),
            dropped=dict(side - Counter(self.side.allowed(side, elapsed_us))),
            undelivered=self.side.undelivered(),
            reinjected=dict(split.counts),
            reinjecting=queued,
            replays=[each.number for each in replays],
            replayed=dict(sum((Counter(each.kinds) for each in replays), Counter[str]())),
            final=final,
            ended=ends and bool(reports.shards),
            skipped=reports.skipped + counted.total(),
            fence=self.lock.fence,
            tables={} if final else self.tables(batch_id),
            arrivals=Entry.next_arrival(before, batch_id) + reports.numbered,
            **reports.measures(before),
        )
        if reports.shards:
            self.recent.note_windows(batch_id, open_runs(reports.shards).get("", []))
        return entry, split

    def deliver(
        self, gathered: Gathered, entry: Entry, split: ReinjectionSplit, *, before: Entry | None, resumed: bool
    ) -> Entry:
        """Write results to their sinks, and side rows to the outbox. Returns the entry with what the outbox has.

        `before`: the entry of the batch before. `resumed`: as of `JobRunner.run`.
        """
        if self.keep_closed_us is not None:
            self._keep_closed(gathered, entry, before, self.keep_closed_us)
        written = self._write(gathered, entry, resumed=resumed)
        refused = self._refused(gathered, entry)
        self._write_side_rows(refused, entry, split, resumed=resumed)
        delivered = replace(
            entry,
            refused=refused.count(),
            outbox=self.side.handed_over(entry.batch_id),
            result_outbox=self.output.handed_over(entry.batch_id),
            undelivered_results=self.output.undelivered(),
            written=written,
        )
        return delivered.summed(before)

    def _keep_closed(self, gathered: Gathered, entry: Entry, before: Entry | None, keep_us: int) -> None:
        """A replayed batch closes the same windows, and replaces its file."""
        closed = self.checkpoint.closed
        closed.begin(before.watermark_us if before else None)
        closed.put(entry.batch_id, list(gathered.closed_states()))
        if entry.watermark_us is not None:
            closed.expire(entry.watermark_us - keep_us)

    def _write(self, gathered: Gathered, entry: Entry, *, resumed: bool) -> int | None:
        """Gives the number of rows, if it is known without another pass over them."""
        takers, table = self.output.takers(entry.results, resumed=resumed), None
        if takers:
            table = gathered.table()
            if entry.results:
                self.recent.note_results(entry.batch_id, gathered, table)
            batch = SinkBatch(
                entry.batch_id, gathered.results_frame, transform=self.label, table=table,
                rows=entry.results, run=self.checkpoint.log.run_id(), final=entry.final,
                was_unnamed=self.record.is_unnamed(entry.batch_id),
                fence=self.lock.fence, check_lease=self.lock.check, large=bool(gathered.large_results),
                read_in_workers=gathered.in_workers if gathered.large_results else None,
            )  # fmt: skip
            for channel in takers:
                channel.write(gathered.identified(batch) if channel.sink.wants_identity else batch)
        if not entry.results:
            return 0
        return None if table is None else table.num_rows

    def _refused(self, gathered: Gathered, entry: Entry) -> RefusedResults:
        if not entry.results or not self.results.may_fail:
            return RefusedResults(None)
        found = self.results.error_records(gathered.emissions, entry.clock_us, entry.watermark_us, self.transform)
        return RefusedResults(found)

    def _write_side_rows(
        self, refused: RefusedResults, entry: Entry, split: ReinjectionSplit, *, resumed: bool
    ) -> None:
        """Give side rows to their channels, which deliver them later, and to the reinjection queue."""
        allowed = {kind: count - entry.dropped.get(kind, 0) for kind, count in entry.side.items()}
        self.side.hand_over(
            entry.batch_id, split.rows, allowed,
            error_records=partial(self._error_records, refused, entry), clear=resumed,
            final=entry.final,
        )  # fmt: skip
        if self.side.reinjection is not None:
            self.side.reinjection.queue.put(entry.batch_id, split.lines)

    def _error_records(self, refused: RefusedResults, entry: Entry, side_records: SideRecords) -> list[str]:
        """Error records without a source row: for emissions that cannot be computed and files that cannot be read."""
        files = {} if entry.final or not self.version.is_current else self.checkpoint.unreadable.of(entry.batch_id)
        unread = side_records.of_files(files, entry.clock_us, entry.watermark_us) if files else []
        return [*refused.records, *unread]


class RefusedResults:
    """Results of a micro-batch that cannot be computed. Each question is one Spark job, and none if all can be."""

    def __init__(self, frame: DataFrame | None) -> None:
        """`frame`: their error records; None if none can fail."""
        self._frame = frame

    @cached_property
    def records(self) -> list[str]:
        return [] if self._frame is None else [row[0] for row in self._frame.collect()]

    def count(self) -> int:
        """Those that no side output asks for are counted where they are."""
        return self._frame.count() if self._frame is not None and "records" not in vars(self) else len(self.records)


def _stage_accounts(reports: Reports, before: Entry | None) -> dict[str, Accounting]:
    """The accounts of windows over the results of others; InternalError if rows do not add up in one of them."""
    earlier = before.stages if before else {}
    held = {name: account["buffered"] for name, account in earlier.items()}
    if not reports.shards:
        return {name: Accounting(buffered=count) for name, count in held.items()}
    accounts = reports.stages()
    for name, account in accounts.items():
        account.check(held.get(name, 0))
    return accounts
