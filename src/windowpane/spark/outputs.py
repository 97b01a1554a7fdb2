"""The way out: packed results to rows, then native Spark SQL for HAVING, order and limit per window, the projection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from windowpane.connectors.sinks import IDENTITY, WHOLE_JSON_SQL
from windowpane.core import columns as c
from windowpane.plan.guard import errors_where
from windowpane.plan.stages import ResultStage
from windowpane.spark.envelope import Envelope, install, risky_texts
from windowpane.spark.merge_stage import RESULTS, SIDE
from windowpane.spark.unpacking import IDENTITY as UNPACKED_ID
from windowpane.spark.unpacking import SIDE_TEXT, SideRecords, Unpack, UnpackBoth
from windowpane.sql.query import Expr, OrderKey, Output
from windowpane.time import format_instant

REASON = "_reason"
NO_TEXT = "CAST(NULL AS STRING)"
RECORD_JSON = """map('ignoreNullFields', 'false', 'timeZone', 'UTC',
 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")""".replace("\n", "")
"""How `to_json` writes a side record: times in UTC whatever the session's time zone."""
INSTANT = pa.timestamp("us", "UTC")
_TIMES = {"window_start": c.WINDOW_START, "window_end": c.WINDOW_END, "trigger_time": c.TRIGGER}
_PSEUDO = {"window_id": UNPACKED_ID, "emit_epoch": c.EPOCH, "is_final": c.FINAL}
"""Names that a query may use, and the columns that they are."""


_NO_RESULT = (c.SOURCE_PARTITION, c.EVENT, c.REINJECTIONS)
"""Columns of rows that results may have and nobody reads."""


def crossing_schema(emitted: pa.Schema) -> pa.Schema:
    """Columns of the emissions that leave the merge stage."""
    return pa.schema([field for field in emitted if field.name not in _NO_RESULT])


@dataclass(frozen=True)
class ResultFrame:
    """Builds the DataFrame of results from the merge stage's output. `schema`: columns of the emissions that cross."""

    stage: ResultStage
    plan_id: str
    schema: pa.Schema
    identify: bool

    @classmethod
    def over(cls, stage: ResultStage, plan_id: str, emitted: pa.Schema, *, identified: bool) -> ResultFrame:
        """For emissions with these columns. Where results are just columns of them, the others need not cross.

        `identified`: somebody will ask which emission a row is, so that all columns are needed.
        """
        whole = cls(stage, plan_id, emitted, identify=c.WINDOW_START in emitted.names)
        if identified or not whole.is_plain:
            return whole
        sources = whole._plain_columns()
        read = {sources[output.expr.text] for output in whole._outputs}
        bounds = {c.WINDOW_START, c.WINDOW_END, c.WINDOW_SALT} if UNPACKED_ID in read else set[str]()
        kept = [field for field in emitted if field.name in read | bounds]
        return cls(stage, plan_id, pa.schema(kept), identify=UNPACKED_ID in read)

    @property
    def unpack(self) -> Unpack:
        return Unpack(self.plan_id, self.schema, self.identify)

    def unpacked(self, packed: DataFrame) -> DataFrame:
        """Emissions out of the merge stage's output."""
        payloads = packed.where(f"kind = '{RESULTS}'").select("payload")
        return payloads.mapInArrow(self.unpack.run, self.unpacked_schema)

    @cached_property
    def unpacked_schema(self) -> StructType:
        fields = self.unpack.identified_schema
        return StructType([StructField(field.name, from_arrow_type(field.type)) for field in fields])

    @cached_property
    def is_plain(self) -> bool:
        """Results are columns of the emissions: nothing is left to compute, to filter or to sort."""
        bare = self.stage.having is None and not self.stage.order and self.stage.limit is None
        return bare and all(output.expr.text in self._plain_columns() for output in self._outputs)

    def plain(self, emitted: pa.Table) -> pa.Table:
        """Plain results, of the types that Spark would give them."""
        sources = self._plain_columns()
        columns = [emitted.column(sources[output.expr.text]) for output in self._outputs]
        instants = [output.expr.text in _TIMES for output in self._outputs]
        return pa.table(
            [column.cast(INSTANT) if instant else column for column, instant in zip(columns, instants, strict=True)],
            names=[output.name for output in self._outputs],
        )

    def _plain_columns(self) -> dict[str, str]:
        """Texts of outputs that are columns of the emissions, with their names there."""
        names = self.unpack.identified_schema.names
        pseudo = _TIMES | _PSEUDO
        return {name: name for name in names} | {name: column for name, column in pseudo.items() if column in names}

    @property
    def _outputs(self) -> tuple[Output, ...]:
        return self.stage.outputs

    @cached_property
    def has_identity(self) -> bool:
        """Whether window, group and epoch tell results apart: rows that are not grouped share their window."""
        return c.WINDOW_START in self.schema.names and self.stage.grouped

    def build(self, unpacked: DataFrame, *, identified: bool = False) -> DataFrame:
        """Results as the query names them, without the emissions that cannot be evaluated.

        `identified`: with the columns that say which emission a row is.
        """
        safe = self._envelope(unpacked)
        error = self._error(safe)
        good = safe.frame if error is None else safe.frame.where(f"({error}) IS NULL")
        return self._projected(self._ordered(self._having(good, safe), safe), safe, identified=identified)

    def _envelope(self, unpacked: DataFrame) -> Envelope:
        """Every expression over the emissions."""
        emissions = unpacked.selectExpr(*self._pseudo_columns())
        exprs = [*([self._condition] if self._condition else []), *self._computed]
        types = {field.name: field.dataType.simpleString().upper() for field in emissions.schema}
        if "risky" not in self._found:
            install(emissions.sparkSession)
            self._found["risky"] = risky_texts(emissions, exprs, types)
        return Envelope.over(emissions, exprs, types, self._found["risky"])

    @cached_property
    def _found(self) -> dict[str, frozenset[str]]:
        """What one micro-batch finds out for all."""
        return {}

    @property
    def _condition(self) -> Expr | None:
        return self.stage.having

    @property
    def _order(self) -> tuple[OrderKey, ...]:
        return self.stage.order

    @property
    def _computed(self) -> list[Expr]:
        return [output.expr for output in self._outputs] + [key.expr for key in self._order]

    def _error(self, safe: Envelope) -> str | None:
        return errors_where(self._condition, self._computed, safe)

    def error_records(
        self, unpacked: DataFrame, clock_us: int, watermark_us: int | None, transform: str
    ) -> DataFrame | None:
        """Records of emissions that cannot be evaluated (column `value`); None if there can be none."""
        if self.is_plain:
            return None
        safe = self._envelope(unpacked)
        error = self._error(safe)
        if error is None:
            return None
        watermark = NO_TEXT if watermark_us is None else f"'{format_instant(watermark_us)}'"
        bad = safe.frame.selectExpr("*", f"{error} AS {REASON}").where(f"{REASON} IS NOT NULL")
        clock = f"'{format_instant(clock_us)}'"
        return bad.selectExpr(f"{self._record(clock, watermark, transform)} AS value")

    def side_records(self, packed: DataFrame, side_records: SideRecords) -> DataFrame:
        """Records of side rows, and of emissions that cannot be evaluated, from one pass over the merge stage's output.

        For a streaming query: nobody knows the watermark here, and the clock is the micro-batch's.
        """
        if self.is_plain:
            return packed.where(f"kind = '{SIDE}'").select("payload").mapInArrow(side_records.run, "value string")
        both = StructType([*self.unpacked_schema.fields, StructField(SIDE_TEXT, StringType())])
        rows = packed.where(f"kind IN ('{SIDE}', '{RESULTS}')").select("kind", "payload")
        safe = self._envelope(rows.mapInArrow(UnpackBoth(self.unpack, side_records, SIDE).run, both))
        error = f"CASE WHEN {SIDE_TEXT} IS NULL THEN {self._error(safe) or NO_TEXT} END AS {REASON}"
        told = safe.frame.selectExpr("*", error).where(f"{SIDE_TEXT} IS NOT NULL OR {REASON} IS NOT NULL")
        record = self._record("current_timestamp()", NO_TEXT, side_records.transform)
        return told.selectExpr(f"coalesce({SIDE_TEXT}, {record}) AS value")

    def _record(self, clock: str, watermark: str, transform: str) -> str:
        """JSON about an emission that cannot be evaluated for REASON; `clock` and `watermark` are SQL."""
        window = NO_TEXT
        if c.WINDOW_START in self.schema.names:
            window = "named_struct('start', window_start, 'end', window_end)"
        fields = {
            "kind": "'error'", "reason": REASON, "event_time": NO_TEXT, "processing_time": clock,
            "watermark": watermark, "window": window, "group_key": self._group_key(), "original_event": NO_TEXT,
            "error_detail": "'a column of the result, HAVING or ORDER BY cannot be computed'",
            "plan_id": f"'{self.plan_id}'", "shard": "CAST(NULL AS INT)", "transform": _literal(transform),
        }  # fmt: skip
        record = ", ".join(f"'{name}', {text}" for name, text in fields.items())
        return f"to_json(named_struct({record}), {RECORD_JSON})"

    def _group_key(self) -> str:
        if not self.stage.keys:
            return NO_TEXT
        return f"struct({', '.join(f'{key.name} AS `{key.label}`' for key in self.stage.keys)})"

    def _pseudo_columns(self) -> list[str]:
        names = self.unpack.identified_schema.names
        times = [f"timestamp_micros({column}) AS {name}" for name, column in _TIMES.items() if column in names]
        return ["*", *times, *(f"{column} AS {name}" for name, column in _PSEUDO.items() if column in names)]

    def _having(self, frame: DataFrame, safe: Envelope) -> DataFrame:
        return frame.where(safe.value(self._condition)) if self._condition else frame

    def _ordered(self, frame: DataFrame, safe: Envelope) -> DataFrame:
        if not self._order:
            return frame
        frame = frame.selectExpr("*", *(f"{safe.value(key.expr)} AS _o{n}" for n, key in enumerate(self._order)))
        window = [column for column in (c.WINDOW_START, c.WINDOW_END, c.TRIGGER) if column in self.schema.names]
        if self.stage.limit is not None:
            order = ", ".join(_order_key(n, key) for n, key in enumerate(self._order))
            rank = f"row_number() OVER (PARTITION BY {', '.join(window)} ORDER BY {order}) AS _rank"
            frame = frame.selectExpr("*", rank).where(f"_rank <= {self.stage.limit}")
        return frame.orderBy(*window, *_directions(self._order))

    def _projected(self, frame: DataFrame, safe: Envelope, *, identified: bool) -> DataFrame:
        columns = [f"{safe.value(output.expr)} AS `{output.name}`" for output in self._outputs]
        return frame.selectExpr(*columns, *(self._identity() if identified else ()))

    def _identity(self) -> list[str]:
        values = (UNPACKED_ID, self._canonical_key(), c.EPOCH, c.FINAL)
        return [f"{value} AS {name}" for value, name in zip(values, IDENTITY, strict=True)]

    def _canonical_key(self) -> str:
        """The group as JSON that is the same however the query is laid out, and differs where groups differ."""
        keys = zip(self.stage.keys, self.stage.key_texts, strict=True)
        parts = [f"{self._one_zero(key.name)} AS {_quoted(text)}" for key, text in keys]
        return f"to_json(struct({', '.join(parts)}), {WHOLE_JSON_SQL})" if parts else "'{}'"

    def _one_zero(self, key: str) -> str:
        """-0.0 and 0.0 are one group, so they must be written the same."""
        kind = self.schema.field(key).type
        return f"({key} + CAST(0 AS {from_arrow_type(kind).simpleString()}))" if pa.types.is_floating(kind) else key


def _quoted(text: str) -> str:
    """A name that is the text of an expression; that of a column is its own."""
    return f"`{text.replace('`', '')}`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _order_key(number: int, key: OrderKey) -> str:
    return f"_o{number} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _directions(order: tuple[OrderKey, ...]) -> list[Column]:
    found: list[Column] = []
    for number, key in enumerate(order):
        column = F.col(f"_o{number}")
        down, up = (column.desc_nulls_first, column.desc_nulls_last), (column.asc_nulls_first, column.asc_nulls_last)
        first, last = down if key.descending else up
        found.append(first() if key.nulls_first else last())
    return found
