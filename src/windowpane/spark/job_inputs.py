"""What the tasks of a job's sources get. Transforms that scan the same stream have one input: it is read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from windowpane.core import columns as c
from windowpane.core.columns import SOURCE_TIME
from windowpane.core.time_range import ALWAYS, TimeRange
from windowpane.errors import PlanError
from windowpane.formats import load, source_format
from windowpane.plan.build import Plan
from windowpane.plan.scan import StreamScan, judges_columns
from windowpane.plan.shared_folds import SharedFold, share_folds
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.scan.codec import Codec
from windowpane.scan.csv.files import CsvFiles
from windowpane.scan.files import FileReader
from windowpane.scan.message_ranges import Fetching, RangeReader
from windowpane.scan.messages import MessageReader
from windowpane.scan.scan import Reader, Scan
from windowpane.scan.shared_scan import SharedScan
from windowpane.scan.table_files import table_reader
from windowpane.spark.fold_sharing import shared_scan
from windowpane.spark.fold_stage import FoldStage
from windowpane.spark.inputs import InputFrame
from windowpane.spark.job_stages import ALONE, JobStages
from windowpane.spark.stages import PACKED
from windowpane.sql import SessionFacts
from windowpane.sql.query import Column
from windowpane.sql.types import to_arrow


@dataclass(frozen=True)
class Handed:
    """What workers read a stream by: the list of its files, its messages as they are, or ranges of offsets."""

    frame: DataFrame
    fetching: Fetching | None = None
    """How workers fetch messages, if they get ranges of offsets."""


@dataclass(frozen=True)
class Sources:
    """How to open the pipeline's streams and tables by name."""

    stream: Callable[[str], DataFrame]
    table: Callable[[str], DataFrame]
    scanned: Callable[[StreamScan], Handed] | None = None
    """For the columnar scan."""


@dataclass(frozen=True)
class JobMember:
    """A transform of a job."""

    plan: Plan
    sources: Sources
    tag: str = ALONE
    identified: bool = False
    """A sink wants to know which emission a row is."""
    spread: bool = True
    """Rows may be shuffled more than once."""
    follows: str | None = None
    """The tag of the version of the query before this one."""
    steady: bool = True
    """It takes rows in every micro-batch: no version of it ends. Only such transforms share folds."""
    is_late: bool = False
    """It joins a query that has run without it, and so has only the stateful stages that are there."""
    rows_in: TimeRange = ALWAYS
    results_in: TimeRange = ALWAYS
    """As of `Stages`."""


@dataclass(frozen=True)
class JobInput:
    """What the tasks of a source get: rows, or what the scan reads them by."""

    handed: DataFrame
    schemas: Mapping[str, pa.Schema]
    """Of the rows as each transform that reads them takes them, by tag."""
    scan: SharedScan | None = None
    partitions_of: str | None = None
    """The stream that the scan reads, in the names of source partitions."""
    folds: tuple[SharedFold, ...] = ()
    """Folds that several of the transforms can share."""

    def folded(self, job: JobStages, shard_ids: tuple[int, ...]) -> DataFrame:
        members = {tag: job.members[tag] for tag in self.schemas}
        unused = c.FILE_COLUMNS if self.scan is None and not any(each.ordered for each in members.values()) else ()
        if self.partitions_of is not None:
            members = {tag: replace(stages, stream=self.partitions_of) for tag, stages in members.items()}
        scan, shared = shared_scan(self.scan, self.folds, members)
        stage = FoldStage(replace(job, members=members), shard_ids, scan, shared)
        return self.handed.drop(*unused).mapInArrow(stage.run, PACKED)


def job_inputs(
    spark: SparkSession,
    members: Sequence[JobMember],
    facts: SessionFacts,
    *,
    feedback: bool,
    access: Access,
    order: Sequence[str] = (),
) -> list[JobInput]:
    """One for each stream that workers read, and one for all of FROM of each transform whose rows Spark decodes.

    `order`: the streams that workers read, as the query has read them before. Spark knows its sources by their numbers.
    """
    scanned: dict[tuple[str, str], dict[str, StreamScan]] = {}
    found: list[JobInput] = []
    opened: dict[str, Sources] = {}
    for member in members:
        scan, sources = member.plan.scan, member.sources
        if scan is not None and scan.holds_in(facts) and sources.scanned is not None and feedback:
            opened[member.tag] = sources
            for each in scan.streams:
                scanned.setdefault((each.stream, each.partitions_of), {})[member.tag] = each
        elif member.is_late:
            raise PlanError(
                "SCAN_NEEDED", f"Spark would decode the rows of transform `{member.plan.transform}`, and so read the "
                "streams of the job once more", "set spark.sql.session.timeZone to UTC and spark.sql.ansi.enabled to "
                "true, as when the plan was made",
            )  # fmt: skip
        else:
            found.append(_decoded_by_spark(spark, member, feedback=feedback))
    plans = {member.tag: member.plan for member in members if member.steady}
    known = {name: number for number, name in enumerate(order)}
    ordered = sorted(scanned, key=lambda each: known.get(each[1], len(known)))
    return [_scanned(opened, scanned[each], plans, access) for each in ordered] + found


def _decoded_by_spark(spark: SparkSession, member: JobMember, *, feedback: bool) -> JobInput:
    plan, sources = member.plan, member.sources
    rows = InputFrame(
        spark, plan.stages.input, plan.types, stream=sources.stream, table=sources.table, clock=not feedback
    ).build()
    return JobInput(rows, {member.tag: to_arrow_schema(rows.schema, timezone="UTC")})


def _scanned(
    sources: Mapping[str, Sources], scans: Mapping[str, StreamScan], plans: Mapping[str, Plan], access: Access
) -> JobInput:
    """One input for all transforms that scan a stream. `plans`: of those that may share folds."""
    whole = merged_scan(list(scans.values()))
    opened = sources[next(iter(scans))].scanned
    assert opened is not None, "only such streams are scanned"
    workers = {tag: worker_scan(each, access) for tag, each in scans.items()}
    handed = opened(whole)
    shared = SharedScan(_reader(whole, access, handed.fetching), workers, record_codec(whole))
    schemas = {tag: scan.schema for tag, scan in workers.items()}
    folds = share_folds({tag: plans[tag] for tag in scans if tag in plans}).folds
    return JobInput(handed.frame, schemas, shared, whole.partitions_of, folds)


def merged_scan(scans: Sequence[StreamScan]) -> StreamScan:
    """A scan that reads what any of several scans of a stream reads. Its projections are those of one of them."""
    chosen = next((each for each in scans if each.stamped), scans[0])
    columns = dict.fromkeys(column for each in scans for column in each.columns)
    own = dict.fromkeys(column for each in scans for column in each.own)
    return replace(chosen, columns=tuple(columns), own=tuple(own))


def record_codec(scan: StreamScan) -> Codec | None:
    """Decodes a record of a file again if that is bad because of a column; None for formats in which that is not so."""
    if not judges_columns(scan):
        return None
    if scan.declared:
        return CsvFiles.of(scan.declared, scan.decoding_options).lines
    assert scan.codec is not None, "records of untyped files are decoded"
    codec: Codec = load(scan.codec.workers)(dict(scan.decoding_options))
    return codec


def worker_scan(scan: StreamScan, access: Access = NO_ACCESS) -> Scan:
    """A planned scan as workers run it."""
    return Scan(_reader(scan, access), scan.projections, scan.original)


def _reader(scan: StreamScan, access: Access, fetching: Fetching | None = None) -> Reader:
    reader = source_format(scan.format).file_reader
    if reader is not None:
        read = load(reader)
        if scan.declared:
            read = read(scan.declared, scan.decoding_options, scan.folders_of_path)
        files = FileReader(read, _typed(scan.columns), scan.max_record_bytes, access, scan.folders_of_path)
        return table_reader(files) if source_format(scan.format).is_table else files
    assert scan.codec is not None, "messages are scanned with a codec only"
    stamp = (Column(SOURCE_TIME, "TIMESTAMP"),) if scan.stamped else ()
    messages = MessageReader(
        stream=scan.partitions_of,
        codec=load(scan.codec.workers)(dict(scan.decoding_options)),
        columns=_typed(scan.columns),
        key_codec=load(scan.key_codec.workers)(dict(scan.key_options)) if scan.key_codec else None,
        key_columns=_typed(scan.key_columns),
        beside=_typed(scan.own + stamp),
        several_topics=scan.several_topics,
        max_record_bytes=scan.max_record_bytes,
    )
    return messages if fetching is None else RangeReader(messages, fetching)


def _typed(columns: tuple[Column, ...]) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((column.name, to_arrow(column.type)) for column in columns)
