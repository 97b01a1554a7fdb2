"""`backfill --check`: the results of a batch beside those that the stream has emitted, with reasons for differences."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from windowpane.checkpoint.plan_record import check_same_query
from windowpane.checkpoint.transform import suffix_of
from windowpane.config import METRICS_ONLY
from windowpane.connectors.read_back import ReadBack, Written
from windowpane.connectors.sinks import Sink
from windowpane.errors import ConfigError, StateError
from windowpane.plan.backfill import BackfillPlan
from windowpane.runtime.backfilling import Backfill, Backfilled, summary
from windowpane.runtime.comparing import ComparedColumns, compare
from windowpane.runtime.difference_reasons import (
    LOST,
    Closing,
    Explained,
    SideRecord,
    StreamFacts,
)
from windowpane.runtime.routes import build_sink, build_sinks
from windowpane.spark.batch_job import BatchOutput


@dataclass(frozen=True)
class Checked:
    """A backfill that was compared with the results in one sink."""

    backfilled: Backfilled
    sink: str
    results: int
    """Results of the batch."""
    differences: Sequence[Explained]

    @property
    def reasons(self) -> dict[str, int]:
        return dict(Counter(each.reason for each in self.differences))


@dataclass(frozen=True)
class BackfillCheck:
    """Compares each transform with what the stream has emitted. Writes nothing."""

    backfill: Backfill

    def carry_out(self, spark: SparkSession | None = None) -> list[Checked]:
        plans = self.backfill.plans()
        chosen = [(planned, self._written(planned), self._readable_columns(planned)) for planned in plans]
        with self.backfill.session(spark) as session:
            return [self._checked(session, planned, written) for planned, written, _ in chosen]

    def _written(self, planned: BackfillPlan) -> Written:
        checkpoint = self.backfill.pipeline.checkpoint(planned.plan)
        record = checkpoint.plan.read()
        if record is None or checkpoint.log.last_committed() < 0:
            hint = "there is nothing to compare with until `windowpane run` has finished a micro-batch"
            raise StateError("NO_CHECKPOINT", f"there is no checkpoint in {checkpoint.address}", hint)
        check_same_query(record, planned.plan, checkpoint.address)
        label = f"{planned.plan.transform}{suffix_of(checkpoint.version)}"  # what the present query has written
        return Written(label, checkpoint.log.run_id())

    def _readable_columns(self, planned: BackfillPlan) -> ComparedColumns:
        """ConfigError if results cannot be told apart by what the query selects."""
        stages, config = planned.plan.stages, self.backfill.pipeline.config
        columns = ComparedColumns.of(stages, ())
        key = f"transforms.{planned.plan.transform}.sql"
        if columns.start is None:
            what = "the results do not say which window they belong to"
            raise config.error("CHECK_WINDOW", what, "add window_start (trigger_time for sliding windows)", key=key)
        if columns.updates and not columns.complete:
            what = "windows are emitted several times, and the results do not say which group they belong to"
            raise config.error("CHECK_GROUPS", what, "add all keys of GROUP BY to SELECT", key=key)
        return columns

    def _checked(self, spark: SparkSession, planned: BackfillPlan, written: Written) -> Checked:
        began = time.monotonic()
        self.backfill.tell(f"{planned.plan.transform}: reading …")
        config, given = self.backfill.pipeline.config, self.backfill.pipeline.sinks
        sinks = build_sinks(config, planned.plan, given)
        with self.backfill.computed(spark, planned, identified=any(sink.wants_identity for sink in sinks)) as output:
            account = output.account
            sink, read = self._read_back(planned, sinks, output, written)
            columns = ComparedColumns.of(planned.plan.stages, read.expected.schema.names)
            compared = compare(read, columns, planned.asked)
            facts = self._facts(spark, planned, written, sink, differ=bool(compared.differences))
            explained = facts.explain(compared.differences)
            done = summary(planned, output, account, began)
        return Checked(done, sink, compared.results, explained)

    def _read_back(
        self, planned: BackfillPlan, sinks: Sequence[Sink], output: BatchOutput, written: Written
    ) -> tuple[str, ReadBack]:
        """The first sink that can be read."""
        for sink in sinks:
            identified = sink.wants_identity and output.results.has_identity
            read = sink.read_back(output.frame(identified=identified), written)
            if read is not None:
                return sink.name, read
        names = ", ".join(f"`{sink.name}`" for sink in sinks)
        raise ConfigError(
            "CHECK_SINK", f"transform `{planned.plan.transform}` writes to {names}, which cannot be read back",
            "files (json, csv, parquet), PostgreSQL tables, and Kafka topics with exactly-once delivery can be",
            key=f"transforms.{planned.plan.transform}.sink",
        )  # fmt: skip

    def _facts(
        self, spark: SparkSession, planned: BackfillPlan, written: Written, sink: str, *, differ: bool
    ) -> StreamFacts:
        checkpoint = self.backfill.pipeline.checkpoint(planned.plan)
        records = self._records(spark, planned, written) if differ else []
        waiting = sum(checkpoint.result_outbox(sink).pending().values())
        return StreamFacts(
            checkpoint.ledger.last(), checkpoint.is_finished(), Closing.of(planned.plan.stages), tuple(records), waiting
        )

    def _records(self, spark: SparkSession, planned: BackfillPlan, written: Written) -> list[SideRecord]:
        """Side records of rows that may be missing in a result, from the sinks that can be read."""
        config, given = self.backfill.pipeline.config, self.backfill.pipeline.sinks
        routes = config.transforms[planned.plan.transform].side_output.routes()
        names = dict.fromkeys(route.last for kind, route in routes.items() if kind in LOST)
        found: list[SideRecord] = []
        for name in names:
            if name == METRICS_ONLY:
                continue
            sink = given.get(name) or build_sink(config, name, config.sinks[name])
            texts = sink.side_records(spark, written) or []
            found += [record for text in texts if (record := SideRecord.read(text)) is not None]
        return found
