"""Opens the streams and tables of a pipeline's transforms."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import REINJECT, PipelineConfig
from windowpane.connectors.history import History
from windowpane.connectors.kafka import fetching
from windowpane.connectors.sources import (
    EXACTLY,
    Reading,
    list_files,
    list_table,
    open_ranges,
    open_records,
    open_stream,
    open_table,
)
from windowpane.formats import source_format
from windowpane.plan.build import Plan
from windowpane.plan.scan import StreamScan
from windowpane.runtime.refreshing import StaticTables
from windowpane.spark.job_inputs import Handed, Sources


def pipeline_sources(
    spark: SparkSession,
    config: PipelineConfig,
    plan: Plan,
    checkpoint: Checkpoint,
    *,
    tables: StaticTables | None = None,
    reading: Reading = EXACTLY,
    history: History | None = None,
) -> Sources:
    """Sources of one transform. `tables` opens its tables; without it, they are read as they are now.

    Original events are included only if one of its side outputs needs them. `history`: for a batch job, which has no
    side outputs and reinjects nothing.
    """
    routes = config.transforms[plan.transform].side_output.routes()
    again = history is None and any(route.sink == REINJECT for route in routes.values())
    max_records = config.options.max_rows_per_batch
    originals = again or (history is None and any(route.include_original for route in routes.values()))

    def opened(name: str) -> DataFrame:
        return open_stream(
            spark, name, config.streams[name], config.base_dir,
            max_records=max_records, originals=originals,
            queue=checkpoint.queue.open(name) if again else None,
            reading=reading, history=history,
        )  # fmt: skip

    def messages(scan: StreamScan) -> Handed:
        stream = config.streams[scan.stream]
        if history is None and scan.fetched_by_spark is None:
            ranges = open_ranges(spark, scan.stream, stream, max_records=max_records)
            if ranges is not None:
                return Handed(ranges, fetching(stream))
        own = [column.name for column in scan.own]
        return Handed(
            open_records(
                spark, scan.stream, stream, max_records=max_records, own=own, stamped=scan.stamped, history=history
            )
        )

    def scanned(scan: StreamScan) -> Handed:
        if source_format(scan.format).is_messages:
            return messages(scan)
        if source_format(scan.format).is_table:
            listed = list_table(
                spark,
                scan.stream,
                config.streams[scan.stream],
                config.base_dir,
                max_records=max_records,
                history=history,
            )
            return Handed(listed)
        return Handed(
            list_files(
                spark,
                scan.stream,
                config.streams[scan.stream],
                config.base_dir,
                max_records=max_records,
                reading=reading,
                history=history,
            )
        )

    def as_it_is(name: str) -> DataFrame:
        return open_table(spark, config.tables[name], config.base_dir)

    return Sources(opened, tables.open if tables else as_it_is, scanned)
