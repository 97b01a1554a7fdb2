"""The way in, in native Spark SQL: streams, event time, joins, branches and the input projection of a plan.

What comes out has just the columns that cross to Python, times as int64 microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windowpane.core import columns as c
from windowpane.core.columns import SOURCE_TIME
from windowpane.errors import InternalError
from windowpane.plan import physical
from windowpane.plan.eventtime.steps import TimeStep, time_source
from windowpane.plan.eventtime.types import EventtimeTypes
from windowpane.plan.guard import details, errors_where, projection_detail, projection_error, types_of
from windowpane.plan.node import PlanNode
from windowpane.plan.stages import InputStage
from windowpane.spark.envelope import Envelope, install
from windowpane.spark.event_times import NOW, TimeExpressions
from windowpane.spark.fold import CLOCK
from windowpane.spark.generated_rows import generated
from windowpane.spark.static_joins import BRANCH_ERROR, JOIN_DETAIL, JOIN_ERROR, KEEP, JoinedTable

_TIME_DETAIL, _BRANCH_DETAIL = "_ts_detail", "_branch_detail"
_CARRIED = (c.UNMATCHED, c.SOURCE_PARTITION, c.EVENT, c.TIME_SOURCE, c.REINJECTIONS, c.MADE, c.ORIGIN, *c.FILE_COLUMNS)
_HIDDEN = (
    c.EVENT_TIME, physical.TIME_ERROR, _TIME_DETAIL, c.CORRUPT, KEEP, JOIN_ERROR, JOIN_DETAIL, SOURCE_TIME, *_CARRIED,
)  # fmt: skip


@dataclass(frozen=True)
class InputFrame:
    """Builds the DataFrame that the fold stage reads. `stream` and `table` open a source by its name."""

    spark: SparkSession
    stage: InputStage
    types: EventtimeTypes
    stream: Callable[[str], DataFrame]
    table: Callable[[str], DataFrame]
    clock: bool
    """The micro-batch's timestamp travels as a column, because no host tells it to the tasks."""

    def build(self) -> DataFrame:
        install(self.spark)
        return self._projected(self._source(self.stage.source))

    def _projected(self, source: DataFrame) -> DataFrame:
        exprs = [column.expr for column in self.stage.columns]
        safe = Envelope.over(source, exprs, types_of(self.stage.relation.columns))
        error, timed = self._error(source, safe), self.stage.timed
        columns = [f"CAST({c.EVENT_TIME} AS BIGINT) AS {c.EVENT_TIME}" if timed else f"{NOW} AS {c.EVENT_TIME}"]
        if self.clock:
            columns.append(f"{NOW} AS {CLOCK}")
        columns += [f"{safe.value(column.expr)} AS {column.name}" for column in self.stage.columns]
        columns += [f"{text} AS {name}" for text, name in self._extras(source, safe)]
        if error:
            columns += [f"{error} AS {c.ERROR}", f"{self._detail(source, safe, error)} AS {c.DETAIL}"]
        return safe.frame.selectExpr(*columns)

    def _error(self, source: DataFrame, safe: Envelope) -> str | None:
        """NULL for a good row, else the reason: first what could not be read, then no time, then no value."""
        parts = []
        if c.CORRUPT in source.columns:
            parts.append(f"CASE WHEN {c.CORRUPT} IS NOT NULL THEN 'decode_error' END")
        parts += [name for name in (physical.TIME_ERROR, BRANCH_ERROR, JOIN_ERROR) if name in source.columns]
        computed = projection_error(self.stage.columns, safe)
        if computed is not None:
            kept = f"coalesce({KEEP}, FALSE)" if KEEP in source.columns else None
            parts.append(f"CASE WHEN {kept} THEN {computed} END" if kept else computed)
        return None if not parts else f"coalesce({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def _detail(self, source: DataFrame, safe: Envelope, error: str) -> str:
        """What exactly is wrong with a bad row, in the order of `_error`."""
        parts = [name for name in (c.CORRUPT, _TIME_DETAIL, _BRANCH_DETAIL, JOIN_DETAIL) if name in source.columns]
        computed = projection_detail(self.stage.columns, safe)
        parts += [computed] if computed else []
        return f"CASE WHEN ({error}) IS NOT NULL THEN coalesce({', '.join([*parts, 'CAST(NULL AS STRING)'])}) END"

    def _extras(self, source: DataFrame, safe: Envelope) -> list[tuple[str, str]]:
        """WHERE as a flag, and the columns that ride along."""
        conditions = [column.expr for column in self.stage.columns if column.name == self.stage.where]
        keep = [safe.value(condition) for condition in conditions]
        keep += [KEEP] if KEEP in source.columns else []
        flag = " AND ".join(f"coalesce({text}, FALSE)" for text in keep)
        return ([(flag, c.KEEP)] if keep else []) + [(name, name) for name in _CARRIED if name in source.columns]

    def _source(self, node: PlanNode) -> DataFrame:
        match node:
            case physical.PhysicalDataSource():
                return self._opened(node)
            case physical.PhysicalEventTime():
                return self._with_time(self._source(node.child), node.steps)
            case physical.PhysicalUnion():
                return self._union([self._source(branch) for branch in node.branches])
            case physical.PhysicalBranch():
                return self._branch(self._source(node.child), node)
            case physical.PhysicalStaticJoin():
                return self._joined(self._source(node.child), node)
            case physical.PhysicalGenerate():
                return generated(self._source(node.child), node)
        raise InternalError("PLAN_SHAPE", f"{node.name} stands where only a source can be")

    def _opened(self, node: physical.PhysicalDataSource) -> DataFrame:
        """A stream; where there are several, with the source partition of each row."""
        opened, name = self.stream(node.stream), c.SOURCE_PARTITION
        if not self.stage.is_union:
            return opened
        if name not in opened.columns:
            return opened.withColumn(name, F.lit(node.partition(f"{node.stream}/0")))
        own = F.substring(F.col(name), len(node.stream) + 1, 2**31 - 1)
        return opened.withColumn(name, F.concat(F.lit(node.partitions_of), own)) if node.reading > 1 else opened

    def _with_time(self, source: DataFrame, steps: tuple[TimeStep, ...]) -> DataFrame:
        """The first step that yields a value wins; a strict step that yields none says why."""
        expressions = TimeExpressions(self.spark, self.types, source)
        fold_stage_decides = not self.clock and self.stage.clock_fallback
        if fold_stage_decides:
            steps = steps[:1]  # the fold stage knows the clock, so the source of the time need not cross
        values = [expressions.value(step) for step in steps]
        time = f"coalesce({', '.join(values)})" if len(values) > 1 else values[0]
        columns: dict[str, str] = {c.EVENT_TIME: time}
        later: dict[str, str] = {}
        if not fold_stage_decides and len(self.stage.time_sources) > 1:
            codes = [c.TIME_SOURCES.index(time_source(step)) for step in steps]
            cases = [f"WHEN {value} IS NOT NULL THEN {code}" for value, code in zip(values, codes, strict=True)]
            columns[c.TIME_SOURCE] = f"CAST(CASE {' '.join(cases)} END AS TINYINT)"
        last = steps[-1]
        if last.on_failure == "error":
            missing = f"CASE WHEN {expressions.absent(last)} THEN 'event_time_null' ELSE 'event_time_parse' END"
            failed = f"CASE WHEN {c.EVENT_TIME} IS NULL{_with_elements(source)} THEN"
            errors = {physical.TIME_ERROR: missing, _TIME_DETAIL: expressions.failure(last)}
            later = {name: f"{failed} {text} END" for name, text in errors.items()}
        timed = source.withColumns({name: F.expr(text) for name, text in columns.items()})
        return timed.withColumns({name: F.expr(text) for name, text in later.items()}) if later else timed

    def _branch(self, source: DataFrame, node: physical.PhysicalBranch) -> DataFrame:
        exprs = [*([node.where] if node.where else []), *(expr for _, expr in node.projection)]
        safe = Envelope.over(source, exprs, types_of(node.known))
        columns = [f"{safe.value(expr)} AS `{name}`" for name, expr in node.projection]
        own = KEEP if node.where is not None else ""
        columns += [name for name in _HIDDEN if name in source.columns and name != own]
        if node.where is not None:
            before = f"coalesce({KEEP}, TRUE) AND " if KEEP in source.columns else ""
            columns.append(f"{before}coalesce({safe.value(node.where)}, FALSE) AS {KEEP}")
        error = errors_where(node.where, [expr for _, expr in node.projection], safe)
        if error is not None and KEEP in source.columns:
            error = f"CASE WHEN coalesce({KEEP}, TRUE) THEN {error} END"
        if error is not None:
            columns.append(f"{error} AS {BRANCH_ERROR}")
            detail = details(exprs, safe) or "NULL"
            columns.append(f"CASE WHEN ({error}) IS NOT NULL THEN {detail} END AS {_BRANCH_DETAIL}")
        return safe.frame.selectExpr(*columns)

    def _union(self, branches: list[DataFrame]) -> DataFrame:
        whole = branches[0]
        for branch in branches[1:]:
            whole = whole.unionByName(branch, allowMissingColumns=True)
        if KEEP in whole.columns:
            whole = whole.withColumn(KEEP, F.coalesce(F.col(KEEP), F.lit(True)))
        return whole

    def _joined(self, source: DataFrame, node: physical.PhysicalStaticJoin) -> DataFrame:
        joined = JoinedTable(self.spark, node.relation, node.join)
        if joined.makes_rows and c.ORIGIN not in source.columns:
            # Spark refuses monotonically_increasing_id here. Rows beside each other must differ, and no others.
            source = source.withColumn(c.ORIGIN, F.rand())
        return joined.to(source, self.table(node.join.table))


def _with_elements(source: DataFrame) -> str:
    """A row of which explode made none, or whose elements cannot be computed, has no time that could be missing."""
    if c.MADE not in source.columns:
        return ""
    failed = f" AND {JOIN_ERROR} IS NULL" if JOIN_ERROR in source.columns else ""
    return f" AND coalesce({KEEP}, TRUE){failed}" if KEEP in source.columns else failed
