"""The way in, in native Spark SQL: streams, event time, joins, branches and the input projection of a plan.

What comes out has just the columns that cross to Python, times as int64 microseconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windowpane.core import columns as c
from windowpane.errors import InternalError
from windowpane.plan import physical
from windowpane.plan.eventtime import EventtimeTypes
from windowpane.plan.node import PlanNode, find
from windowpane.plan.steps import TimeStep
from windowpane.spark.near import CLOCK
from windowpane.sql.query import Relation

CORRUPT = "_corrupt_record"
"""The text of a record that the source could not read; only file sources that can tell have it."""
NOW = "unix_micros(current_timestamp())"
"""In a streaming query Spark records the micro-batch's timestamp, and a replayed batch gets the same one."""
_BRANCH_KEEP = "_branch_keep"
_HIDDEN = (physical.EVENT_TIME, physical.TIME_ERROR, c.SHARD, CORRUPT, c.EVENT, _BRANCH_KEEP, "_source_ts")


@dataclass(frozen=True)
class InputFrame:
    """Builds the DataFrame that the near stage reads. `stream` and `table` open a source by its name."""

    spark: SparkSession
    root: PlanNode
    relation: Relation
    types: EventtimeTypes
    stream: Callable[[str], DataFrame]
    table: Callable[[str], DataFrame]

    def build(self) -> DataFrame:
        project = find(self.root, physical.PhysicalProject)
        if project is None:
            raise InternalError("PLAN_SHAPE", "the plan has no input projection")
        return self._projected(self._source(project.child), project)

    def _projected(self, source: DataFrame, project: physical.PhysicalProject) -> DataFrame:
        good = self._error(source, project)
        columns = [f"CAST({physical.EVENT_TIME} AS BIGINT) AS {c.TS}" if self._timed else f"{NOW} AS {c.TS}"]
        columns.append(f"{NOW} AS {CLOCK}")
        guard = f"{good} IS NULL" if good else None
        for column in project.columns:
            text = column.expr.text
            columns.append(f"{f'CASE WHEN {guard} THEN {text} END' if guard else text} AS {column.name}")
        columns += [f"{name} AS {alias}" for name, alias in self._extras(source, project)]
        if good:
            columns += [f"{good} AS {c.ERROR}", f"{self._detail(source)} AS {c.DETAIL}"]
        return source.selectExpr(*columns)

    @property
    def _timed(self) -> bool:
        return find(self.root, physical.PhysicalEventTime) is not None

    def _error(self, source: DataFrame, project: physical.PhysicalProject) -> str | None:
        """NULL for a good row, else the reason: first what could not be read, then no time, then no value."""
        parts = []
        if CORRUPT in source.columns:
            parts.append(f"CASE WHEN {CORRUPT} IS NOT NULL THEN 'decode_error' END")
        if physical.TIME_ERROR in source.columns:
            parts.append(physical.TIME_ERROR)
        if project.error is not None:
            parts.append(project.error.text)
        return None if not parts else f"coalesce({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def _detail(self, source: DataFrame) -> str:
        return CORRUPT if CORRUPT in source.columns else "CAST(NULL AS STRING)"

    def _extras(self, source: DataFrame, project: physical.PhysicalProject) -> list[tuple[str, str]]:
        keep = [project.where] if project.where else []
        keep += [_BRANCH_KEEP] if _BRANCH_KEEP in source.columns else []
        found = []
        if keep:
            where = next((column.expr.text for column in project.columns if column.name == project.where), None)
            texts = [where if name == project.where else name for name in keep]
            found.append((" AND ".join(f"coalesce({text}, FALSE)" for text in texts), c.KEEP))
        found += [(c.SHARD, c.SHARD)] if c.SHARD in source.columns else []
        return found + ([(c.EVENT, c.EVENT)] if c.EVENT in source.columns else [])

    def _source(self, node: PlanNode) -> DataFrame:
        match node:
            case physical.PhysicalDataSource():
                return self.stream(node.stream)
            case physical.PhysicalEventTime():
                return self._with_time(self._source(node.child), node.steps)
            case physical.PhysicalUnion():
                return self._union([self._source(branch) for branch in node.branches])
            case physical.PhysicalBranch():
                return self._branch(self._source(node.child), node)
            case physical.PhysicalStaticJoin():
                return self._joined(self._source(node.child), node)
        raise InternalError("PLAN_SHAPE", f"{node.name} stands where only a source can be")

    def _with_time(self, source: DataFrame, steps: tuple[TimeStep, ...]) -> DataFrame:
        """The first step that yields a value wins; a strict step that yields none says why."""
        values = [self._value(source, step) for step in steps]
        time = f"coalesce({', '.join(values)})" if len(values) > 1 else values[0]
        columns: dict[str, str] = {physical.EVENT_TIME: time}
        last = steps[-1]
        if last.on_failure == "error":
            missing = f"CASE WHEN ({last.text}) IS NULL THEN 'event_time_null' ELSE 'event_time_parse' END"
            columns[physical.TIME_ERROR] = f"CASE WHEN {time} IS NULL THEN {missing} END"
        return source.withColumns({name: F.expr(text) for name, text in columns.items()})

    def _value(self, source: DataFrame, step: TimeStep) -> str:
        if step.origin == "processing_time":
            return NOW
        kind = source.selectExpr(f"{step.text} AS v").schema["v"].dataType.simpleString().upper()
        return self.types.resolve(step.type).parser.spark_sql(step.text, kind)

    def _branch(self, source: DataFrame, node: physical.PhysicalBranch) -> DataFrame:
        columns = [f"{expr.text} AS `{name}`" for name, expr in node.projection]
        columns += [name for name in _HIDDEN if name in source.columns]
        if node.where is not None:
            columns.append(f"{node.where.text} AS {_BRANCH_KEEP}")
        return source.selectExpr(*columns)

    def _union(self, branches: list[DataFrame]) -> DataFrame:
        whole = branches[0]
        for branch in branches[1:]:
            whole = whole.unionByName(branch, allowMissingColumns=True)
        if _BRANCH_KEEP in whole.columns:
            whole = whole.withColumn(_BRANCH_KEEP, F.coalesce(F.col(_BRANCH_KEEP), F.lit(True)))
        return whole

    def _joined(self, source: DataFrame, node: physical.PhysicalStaticJoin) -> DataFrame:
        """Spark does the join: the table under its own name, columns that clash under their new ones."""
        join = node.join
        stream_view, table_view = (f"wp_{uuid.uuid4().hex}" for _ in range(2))
        source.createOrReplaceTempView(stream_view)
        self.table(join.table).createOrReplaceTempView(table_view)
        own = [f"{self.relation.alias}.`{name}`" for name in source.columns]
        clause = join.text.replace(f"JOIN {join.table}", f"JOIN {table_view}", 1)
        if f"AS {join.alias}" not in clause:
            clause = clause.replace(table_view, f"{table_view} AS {join.alias}", 1)
        taken = {(alias, column): name for name, alias, column in self.relation.renamed}
        theirs = [
            f"{join.alias}.`{column.name}` AS `{taken.get((join.alias, column.name), column.name)}`"
            for column in join.columns
            if column.name not in join.using_columns and "SEMI" not in clause and "ANTI" not in clause
        ]
        sql = f"SELECT {', '.join(own + theirs)} FROM {stream_view} AS {self.relation.alias} {clause}"
        return self.spark.sql(sql)


def stream_shards(streams: Mapping[str, object]) -> dict[str, str]:
    """Names of the shards of sources that have only one."""
    return {name: f"{name}/0" for name in streams}
