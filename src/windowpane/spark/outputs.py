"""Results as DataFrames: unpacked emissions, then Spark SQL for HAVING, ORDER BY and LIMIT, and the projection."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from windowpane.core import columns as c
from windowpane.plan.guard import errors_where
from windowpane.plan.stages import ResultStage
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.spark.envelope import Envelope, install, risky_texts
from windowpane.spark.merge_stage import RESULTS, SIDE
from windowpane.spark.result_json import NO_TEXT, REASON, error_record, identity_columns
from windowpane.spark.result_order import in_order
from windowpane.spark.unpacking import IDENTITY as UNPACKED_ID
from windowpane.spark.unpacking import SIDE_TEXT, SideRecords, Unpack, UnpackBoth
from windowpane.sql.query import Expr
from windowpane.time import format_instant

INSTANT = pa.timestamp("us", "UTC")
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
    _risky: frozenset[str] | None = field(init=False, default=None)
    """Expressions that may fail, found with the first micro-batch."""

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
        bare = self.stage.having is None and not self.stage.order and self.stage.limit is None
        return bare and all(output.expr.text in self._plain_columns() for output in self.stage.outputs)

    def plain(self, emitted: pa.Table) -> pa.Table:
        """Plain results, of the types that Spark would give them."""
        sources = self._plain_columns()
        columns = [emitted.column(sources[output.expr.text]) for output in self.stage.outputs]
        instants = [output.expr.text in _TIMES for output in self.stage.outputs]
        return pa.table(
            [column.cast(INSTANT) if instant else column for column, instant in zip(columns, instants, strict=True)],
            names=[output.name for output in self.stage.outputs],
        )

    def _plain_columns(self) -> dict[str, str]:
        """Texts of outputs that are columns of the emissions, with their names there."""
        names = self.unpack.identified_schema.names
        pseudo = _TIMES | _PSEUDO
        return {name: name for name in names} | {name: column for name, column in pseudo.items() if column in names}

    @cached_property
    def has_identity(self) -> bool:
        """Whether window, group and epoch identify a result: rows that are not grouped share their window."""
        return c.WINDOW_START in self.schema.names and self.stage.grouped

    def build(self, unpacked: DataFrame, *, identified: bool = False) -> DataFrame:
        """Results with the names of the query, without the emissions that cannot be computed.

        `identified`: with the columns that identify the emission of each row.
        """
        safe = self._envelope(unpacked)
        error = self._error(safe)
        good = safe.frame if error is None else safe.frame.where(f"({error}) IS NULL")
        window = [column for column in (c.WINDOW_START, c.WINDOW_END, c.TRIGGER) if column in self.schema.names]
        ordered = in_order(self._having(good, safe), self.stage, safe, window)
        return self._projected(ordered, safe, identified=identified)

    def _envelope(self, unpacked: DataFrame) -> Envelope:
        """Every expression over the emissions."""
        emissions = unpacked.selectExpr(*self._pseudo_columns())
        having = self.stage.having
        exprs = [*([having] if having else []), *self._computed]
        types = {field.name: field.dataType.simpleString().upper() for field in emissions.schema}
        if self._risky is None:
            install(emissions.sparkSession)
            self._risky = risky_texts(emissions, exprs, types)
        return Envelope.over(emissions, exprs, types, self._risky)

    @property
    def _computed(self) -> list[Expr]:
        return [output.expr for output in self.stage.outputs] + [key.expr for key in self.stage.order]

    def _error(self, safe: Envelope) -> str | None:
        return errors_where(self.stage.having, self._computed, safe)

    def error_records(
        self, unpacked: DataFrame, clock_us: int, watermark_us: int | None, transform: str
    ) -> DataFrame | None:
        """Records of emissions that cannot be computed (column `value`); None if all can be."""
        if self.is_plain:
            return None
        safe = self._envelope(unpacked)
        error = self._error(safe)
        if error is None:
            return None
        watermark = NO_TEXT if watermark_us is None else f"'{format_instant(watermark_us)}'"
        bad = safe.frame.selectExpr("*", f"{error} AS {REASON}").where(f"{REASON} IS NOT NULL")
        clock = f"'{format_instant(clock_us)}'"
        return bad.selectExpr(f"{self._record(clock=clock, watermark=watermark, transform=transform)} AS value")

    def side_records(self, packed: DataFrame, side_records: SideRecords) -> DataFrame:
        """Records of side rows, and of emissions that cannot be evaluated, from one pass over the merge stage's output.

        For a streaming query: the watermark is not known here, and the clock is the micro-batch's.
        """
        if self.is_plain:
            return packed.where(f"kind = '{SIDE}'").select("payload").mapInArrow(side_records.run, "value string")
        both = StructType([*self.unpacked_schema.fields, StructField(SIDE_TEXT, StringType())])
        rows = packed.where(f"kind IN ('{SIDE}', '{RESULTS}')").select("kind", "payload")
        safe = self._envelope(rows.mapInArrow(UnpackBoth(self.unpack, side_records, SIDE).run, both))
        error = f"CASE WHEN {SIDE_TEXT} IS NULL THEN {self._error(safe) or NO_TEXT} END AS {REASON}"
        found = safe.frame.selectExpr("*", error).where(f"{SIDE_TEXT} IS NOT NULL OR {REASON} IS NOT NULL")
        record = self._record(clock="current_timestamp()", watermark=NO_TEXT, transform=side_records.transform)
        return found.selectExpr(f"coalesce({SIDE_TEXT}, {record}) AS value")

    def _record(self, *, clock: str, watermark: str, transform: str) -> str:
        return error_record(
            self.stage, self.schema, plan_id=self.plan_id, transform=transform, clock=clock, watermark=watermark
        )

    def _pseudo_columns(self) -> list[str]:
        names = self.unpack.identified_schema.names
        times = [f"timestamp_micros({column}) AS {name}" for name, column in _TIMES.items() if column in names]
        return ["*", *times, *(f"{column} AS {name}" for name, column in _PSEUDO.items() if column in names)]

    def _having(self, frame: DataFrame, safe: Envelope) -> DataFrame:
        return frame.where(safe.value(self.stage.having)) if self.stage.having else frame

    def _projected(self, frame: DataFrame, safe: Envelope, *, identified: bool) -> DataFrame:
        columns = [f"{safe.value(output.expr)} AS `{output.name}`" for output in self.stage.outputs]
        return frame.selectExpr(*columns, *(identity_columns(self.stage, self.schema) if identified else ()))


def spark_schema(schema: pa.Schema) -> StructType:
    """The types of results in Spark. Times without a zone stay so, whatever Spark would prefer in this session."""
    return StructType([StructField(field.name, from_arrow_type(field.type)) for field in schema])
