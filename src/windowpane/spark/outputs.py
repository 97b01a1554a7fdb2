"""Results as DataFrames: unpacked emissions, then Spark SQL for the steps of the result side and the projection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from windowpane.core import columns as c
from windowpane.plan.stages import ResultStage
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.spark.envelope import install
from windowpane.spark.merge_stage import RESULTS, SIDE
from windowpane.spark.result_json import NO_TEXT, REASON, error_record, identity_columns
from windowpane.spark.result_segments import SegmentFrame
from windowpane.spark.unpacking import IDENTITY as UNPACKED_ID
from windowpane.spark.unpacking import SIDE_TEXT, PlainColumn, SideRecords, Unpack, UnpackBoth, UnpackPlain
from windowpane.sql.result_steps import Segment
from windowpane.time import format_instant

_TIMES = {"window_start": c.WINDOW_START, "window_end": c.WINDOW_END, "trigger_time": c.TRIGGER}
_PSEUDO = {"window_id": UNPACKED_ID, "emit_epoch": c.EPOCH, "is_final": c.FINAL}
"""Names that a query may use, and their columns."""
_NO_RESULT = (c.SOURCE_PARTITION, c.EVENT, c.REINJECTIONS)
"""Columns of emitted rows that no result needs."""


def crossing_schema(emitted: pa.Schema) -> pa.Schema:
    """Columns of the emissions that leave the merge stage."""
    return pa.schema([field for field in emitted if field.name not in _NO_RESULT])


@dataclass
class ResultFrame:
    """Builds the DataFrame of results from the merge stage's output. `schema`: columns of the emissions that cross."""

    stage: ResultStage
    plan_id: str
    schema: pa.Schema
    identify: bool
    access: Access = NO_ACCESS
    """How payloads in object stores are reached."""
    _risky: dict[int, frozenset[str]] = field(init=False, default_factory=dict)
    """Expressions of each segment that may fail, found with the first micro-batch."""

    @classmethod
    def over(
        cls, stage: ResultStage, plan_id: str, emitted: pa.Schema, *, identified: bool, access: Access = NO_ACCESS
    ) -> ResultFrame:
        """For emissions with these columns. If the results are just some of these columns, only those cross.

        `identified`: a sink asks for the identity of emissions, which needs all columns.
        """
        whole = cls(stage, plan_id, emitted, identify=c.WINDOW_START in emitted.names, access=access)
        if identified or not whole.is_plain:
            return whole
        sources = whole._plain_columns()
        read = {sources[output.expr.text] for output in whole.stage.outputs}
        bounds = {c.WINDOW_START, c.WINDOW_END, c.WINDOW_SALT} if UNPACKED_ID in read else set[str]()
        kept = [field for field in emitted if field.name in read | bounds]
        return cls(stage, plan_id, pa.schema(kept), identify=UNPACKED_ID in read, access=access)

    @property
    def unpack(self) -> Unpack:
        return Unpack(self.plan_id, self.schema, self.identify, self.access)

    def unpacked(self, packed: DataFrame) -> DataFrame:
        """Emissions out of the merge stage's output."""
        payloads = packed.where(f"kind = '{RESULTS}'").select("payload")
        return payloads.mapInArrow(self.unpack.run, self.unpacked_schema)

    @cached_property
    def unpacked_schema(self) -> StructType:
        return spark_schema(self.unpack.identified_schema)

    @cached_property
    def is_plain(self) -> bool:
        """Results are columns of the emissions: nothing is left to compute, to filter or to sort."""
        return not self.stage.steps and all(output.expr.text in self._plain_columns() for output in self.stage.outputs)

    @cached_property
    def plain(self) -> UnpackPlain:
        """Gives plain results, of the types that Spark would give them."""
        sources = self._plain_columns()
        texts = [(output.name, output.expr.text) for output in self.stage.outputs]
        return UnpackPlain(self.unpack, tuple(PlainColumn(name, sources[text], text in _TIMES) for name, text in texts))

    def _plain_columns(self) -> dict[str, str]:
        """Texts of outputs that are columns of the emissions, with their names there."""
        names = self.unpack.identified_schema.names
        pseudo = _TIMES | _PSEUDO
        return {name: name for name in names} | {name: column for name, column in pseudo.items() if column in names}

    @property
    def may_fail(self) -> bool:
        """Whether there may be results that cannot be computed. Spark tells with the first micro-batch."""
        is_known = len(self._risky) == len(self.stage.segments)
        return not self.is_plain and (not is_known or any(self._risky.values()))

    @cached_property
    def has_identity(self) -> bool:
        """Whether window, group and epoch identify a result: rows that are not grouped share their window."""
        return c.WINDOW_START in self.schema.names and self.stage.grouped

    @property
    def columns(self) -> list[str]:
        """The names of the columns of results."""
        return [output.name for output in self.stage.outputs]

    def build(self, unpacked: DataFrame, *, identified: bool = False) -> DataFrame:
        """Results with the names of the query, without those that cannot be computed.

        `identified`: with the columns that identify the emission of each row.
        """
        *_, last = self._steps(unpacked)
        return last.projected(self.stage, identity_columns(self.stage, self.schema) if identified else [])

    def _steps(self, unpacked: DataFrame) -> Iterator[SegmentFrame]:
        """The segments of the result side, each over what the one before leaves."""
        first, *others = self.stage.segments
        found = self._segment(self._emissions(unpacked), 0, first)
        yield found
        for number, segment in enumerate(others, 1):
            found = self._segment(found.applied(self.stage), number, segment)
            yield found

    def _emissions(self, unpacked: DataFrame) -> DataFrame:
        return unpacked.selectExpr(*self._pseudo_columns())

    def _segment(self, frame: DataFrame, number: int, segment: Segment) -> SegmentFrame:
        if number not in self._risky:
            install(frame.sparkSession)
            self._risky[number] = SegmentFrame.risky(frame, segment)
        return SegmentFrame.over(frame, segment, self._risky[number])

    def error_records(
        self, unpacked: DataFrame, clock_us: int, watermark_us: int | None, transform: str
    ) -> DataFrame | None:
        """Records of emissions that cannot be computed (column `value`); None if all can be."""
        if not self.may_fail:
            return None
        found = [each.refused() for each in self._steps(unpacked)]
        refused = [frame for frame in found if frame is not None]
        if not refused:
            return None
        watermark = NO_TEXT if watermark_us is None else f"'{format_instant(watermark_us)}'"
        record = self._record(clock=f"'{format_instant(clock_us)}'", watermark=watermark, transform=transform)
        return reduce(DataFrame.unionAll, (frame.selectExpr(f"{record} AS value") for frame in refused))

    def side_records(self, packed: DataFrame, side_records: SideRecords) -> DataFrame:
        """Records of side rows, and of emissions that cannot be evaluated, from one pass over the merge stage's output.

        For a streaming query: the watermark is not known here, and the clock is the micro-batch's.
        """
        if self.is_plain:
            return packed.where(f"kind = '{SIDE}'").select("payload").mapInArrow(side_records.run, "value string")
        both = StructType([*self.unpacked_schema.fields, StructField(SIDE_TEXT, StringType())])
        rows = packed.where(f"kind IN ('{SIDE}', '{RESULTS}')").select("kind", "payload")
        emissions = self._emissions(rows.mapInArrow(UnpackBoth(self.unpack, side_records, SIDE).run, both))
        safe = self._segment(emissions, 0, self.stage.segments[0])
        error = f"CASE WHEN {SIDE_TEXT} IS NULL THEN {safe.error or NO_TEXT} END AS {REASON}"
        found = safe.evaluated.selectExpr("*", error).where(f"{SIDE_TEXT} IS NOT NULL OR {REASON} IS NOT NULL")
        record = self._record(clock="current_timestamp()", watermark=NO_TEXT, transform=side_records.transform)
        return found.selectExpr(f"coalesce({SIDE_TEXT}, {record}) AS value")

    def _record(self, *, clock: str, watermark: str, transform: str) -> str:
        return error_record(
            self.stage, self.schema, plan_id=self.plan_id, transform=transform, clock=clock, watermark=watermark
        )

    def _pseudo_columns(self) -> list[str]:
        names = self.unpack.identified_schema.names
        times = [f"timestamp_micros({column}) AS {name}" for name, column in _TIMES.items() if column in names]
        times += [f"timestamp_micros({c.WINDOW_END} - 1) AS window_time"] if c.WINDOW_END in names else []
        return ["*", *times, *(f"{column} AS {name}" for name, column in _PSEUDO.items() if column in names)]


def spark_schema(schema: pa.Schema) -> StructType:
    """The types of results in Spark. Times without a zone stay so, whatever Spark would prefer in this session."""
    return StructType([StructField(field.name, from_arrow_type(field.type)) for field in schema])
