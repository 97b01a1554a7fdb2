"""The way in, in native Spark SQL: streams, event time, joins, branches and the input projection of a plan.

What comes out has just the columns that cross to Python, times as int64 microseconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windowpane.core import columns as c
from windowpane.errors import InternalError, PlanError
from windowpane.plan import physical
from windowpane.plan.columns import quote
from windowpane.plan.eventtime import EventtimeTypes
from windowpane.plan.guard import error_detail, guard_of, row_error_detail
from windowpane.plan.node import PlanNode, find
from windowpane.plan.operators import falls_back_to_clock, time_sources
from windowpane.plan.steps import SOURCE_TIME, TimeStep, time_source
from windowpane.spark.event_times import NOW, TimeExpressions
from windowpane.spark.near import CLOCK
from windowpane.sql.query import Column, Expr, Relation, StaticJoin

_KEEP, _BRANCH_ERROR, _MATCHED = "_from_keep", "_branch_error", "_matched"
_TIME_DETAIL, _BRANCH_DETAIL = "_ts_detail", "_branch_detail"
_CARRIED = (c.SHARD, c.EVENT, c.TIME_SOURCE, c.REINJECTIONS)
_HIDDEN = (physical.EVENT_TIME, physical.TIME_ERROR, _TIME_DETAIL, c.CORRUPT, _KEEP, SOURCE_TIME, *_CARRIED)


@dataclass(frozen=True)
class InputFrame:
    """Builds the DataFrame that the near stage reads. `stream` and `table` open a source by its name."""

    spark: SparkSession
    root: PlanNode
    relation: Relation
    types: EventtimeTypes
    stream: Callable[[str], DataFrame]
    table: Callable[[str], DataFrame]
    clock: bool
    """The micro-batch's timestamp travels as a column, because no host tells it to the tasks."""

    def build(self) -> DataFrame:
        project = find(self.root, physical.PhysicalProject)
        if project is None:
            raise InternalError("PLAN_SHAPE", "the plan has no input projection")
        return self._projected(self._source(project.child), project)

    def _projected(self, source: DataFrame, project: physical.PhysicalProject) -> DataFrame:
        good = self._error(source, project)
        columns = [f"CAST({physical.EVENT_TIME} AS BIGINT) AS {c.TS}" if self._timed else f"{NOW} AS {c.TS}"]
        if self.clock:
            columns.append(f"{NOW} AS {CLOCK}")
        known = self.relation.columns
        columns += [f"{_computed(column.expr, known)} AS {column.name}" for column in project.columns]
        columns += [f"{text} AS {name}" for text, name in self._extras(source, project)]
        if good:
            columns += [f"{good} AS {c.ERROR}", f"{self._detail(source, project, good)} AS {c.DETAIL}"]
        return source.selectExpr(*columns)

    @property
    def _timed(self) -> bool:
        return find(self.root, physical.PhysicalEventTime) is not None

    def _error(self, source: DataFrame, project: physical.PhysicalProject) -> str | None:
        """NULL for a good row, else the reason: first what could not be read, then no time, then no value."""
        parts = []
        if c.CORRUPT in source.columns:
            parts.append(f"CASE WHEN {c.CORRUPT} IS NOT NULL THEN 'decode_error' END")
        parts += [name for name in (physical.TIME_ERROR, _BRANCH_ERROR) if name in source.columns]
        if project.error is not None:
            kept = f"coalesce({_KEEP}, FALSE)" if _KEEP in source.columns else None
            parts.append(f"CASE WHEN {kept} THEN {project.error.text} END" if kept else project.error.text)
        return None if not parts else f"coalesce({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def _detail(self, source: DataFrame, project: physical.PhysicalProject, good: str) -> str:
        """What exactly is wrong with a bad row, in the order of `_error`."""
        parts = [name for name in (c.CORRUPT, _TIME_DETAIL, _BRANCH_DETAIL) if name in source.columns]
        computed = row_error_detail(project.columns, self.relation.columns)
        parts += [computed] if computed else []
        return f"CASE WHEN ({good}) IS NOT NULL THEN coalesce({', '.join([*parts, 'CAST(NULL AS STRING)'])}) END"

    def _extras(self, source: DataFrame, project: physical.PhysicalProject) -> list[tuple[str, str]]:
        """WHERE as a flag, and the columns that ride along."""
        conditions = [column.expr for column in project.columns if column.name == project.where]
        keep = [_computed(condition, self.relation.columns) for condition in conditions]
        keep += [_KEEP] if _KEEP in source.columns else []
        flag = " AND ".join(f"coalesce({text}, FALSE)" for text in keep)
        return ([(flag, c.KEEP)] if keep else []) + [(name, name) for name in _CARRIED if name in source.columns]

    def _source(self, node: PlanNode) -> DataFrame:
        match node:
            case physical.PhysicalDataSource():
                opened = self.stream(node.stream)
                if c.SHARD in opened.columns or find(self.root, physical.PhysicalUnion) is None:
                    return opened
                return opened.withColumn(c.SHARD, F.lit(f"{node.stream}/0"))
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
        expressions = TimeExpressions(self.spark, self.types, source)
        told = not self.clock and falls_back_to_clock(self.root)
        if told:
            steps = steps[:1]  # the near stage knows the clock, and need not be told whose time it is
        values = [expressions.value(step) for step in steps]
        time = f"coalesce({', '.join(values)})" if len(values) > 1 else values[0]
        columns: dict[str, str] = {physical.EVENT_TIME: time}
        if not told and len(time_sources(self.root)) > 1:
            codes = [c.TIME_SOURCES.index(time_source(step)) for step in steps]
            cases = [f"WHEN {value} IS NOT NULL THEN {code}" for value, code in zip(values, codes, strict=True)]
            columns[c.TIME_SOURCE] = f"CAST(CASE {' '.join(cases)} END AS TINYINT)"
        last = steps[-1]
        if last.on_failure == "error":
            absent = f"({last.error}) IS NULL AND ({last.text}) IS NULL" if last.error else f"({last.text}) IS NULL"
            missing = f"CASE WHEN {absent} THEN 'event_time_null' ELSE 'event_time_parse' END"
            columns[physical.TIME_ERROR] = f"CASE WHEN {time} IS NULL THEN {missing} END"
            columns[_TIME_DETAIL] = f"CASE WHEN {time} IS NULL THEN {expressions.failure(last)} END"
        return source.withColumns({name: F.expr(text) for name, text in columns.items()})

    def _branch(self, source: DataFrame, node: physical.PhysicalBranch) -> DataFrame:
        stream = find(node, physical.PhysicalDataSource)
        known = (stream.columns if stream else None) or ()
        columns = [f"{_computed(expr, known)} AS `{name}`" for name, expr in node.projection]
        columns += [name for name in _HIDDEN if name in source.columns]
        if node.where is not None:
            columns.append(f"{_computed(node.where, known)} AS {_KEEP}")
        if node.error is not None:
            columns.append(f"{node.error.text} AS {_BRANCH_ERROR}")
            exprs = [*([node.where] if node.where else []), *(expr for _, expr in node.projection)]
            detail = error_detail(exprs, known)
            columns.append(f"CASE WHEN {node.error.text} IS NOT NULL THEN {detail or 'NULL'} END AS {_BRANCH_DETAIL}")
        return source.selectExpr(*columns)

    def _union(self, branches: list[DataFrame]) -> DataFrame:
        whole = branches[0]
        for branch in branches[1:]:
            whole = whole.unionByName(branch, allowMissingColumns=True)
        if _KEEP in whole.columns:
            whole = whole.withColumn(_KEEP, F.coalesce(F.col(_KEEP), F.lit(True)))
        return whole

    def _joined(self, source: DataFrame, node: physical.PhysicalStaticJoin) -> DataFrame:
        """Spark does the join. A stream row without a partner has been read, so it stays as a filtered row."""
        join = node.join
        stream_view, table_view = (f"wp_{uuid.uuid4().hex}" for _ in range(2))
        kind, _, rest = join.text.partition("JOIN ")
        table = self.table(join.table)
        if "SEMI" in kind or "ANTI" in kind:
            table = table.select(*self._compared(join)).distinct()
        source.createOrReplaceTempView(stream_view)
        table.withColumn(_MATCHED, F.lit(True)).createOrReplaceTempView(table_view)
        found = next((word for word in (" ON ", " USING ") if word in rest), None)
        condition = rest[rest.index(found) :] if found else ""
        stream, alias = quote(self.relation.alias), quote(join.alias)
        kept = self._partner(kind.strip(), f"{alias}.{_MATCHED}")
        if _KEEP in source.columns:
            kept = f"coalesce({stream}.{_KEEP}, TRUE) AND {kept}"
        own = [f"{stream}.{quote(name)}" for name in source.columns if name != _KEEP]
        columns = [*own, *self._table_columns(node, kind), f"{kept} AS {_KEEP}"]
        sql = f"SELECT {', '.join(columns)} FROM {stream_view} AS {stream} LEFT JOIN {table_view} AS {alias}"
        return self.spark.sql(f"{sql}{condition or ' ON TRUE'}")

    def _compared(self, join: StaticJoin) -> list[str]:
        """The table's columns that a semi or anti join compares: distinct, a row has at most one partner in them."""
        if join.using_columns:
            return list(join.using_columns)
        condition = join.text.partition(" ON ")[2]
        sides = [side.strip("() ") for pair in condition.split(" AND ") for side in pair.split(" = ")]
        if len(sides) != 2 * len(condition.split(" AND ")):
            raise PlanError(
                "UNSUPPORTED_JOIN", f"`{join.text}` compares by something else than equality",
                "a semi or anti join takes USING (…), or ON with equalities joined by AND",
            )  # fmt: skip
        prefix = f"{quote(join.alias)}."
        return [side.removeprefix(prefix).strip("`") for side in sides if side.startswith(prefix)]

    def _partner(self, kind: str, matched: str) -> str:
        """Whether a row is kept, by the kind of join."""
        if kind == "LEFT":
            return "TRUE"
        return f"{matched} IS NULL" if "ANTI" in kind else f"{matched} IS NOT NULL"

    def _table_columns(self, node: physical.PhysicalStaticJoin, kind: str) -> list[str]:
        """Columns of the table, under new names where they clash."""
        if "SEMI" in kind or "ANTI" in kind:
            return []
        join = node.join
        taken = {(alias, column): name for name, alias, column in self.relation.renamed}
        shared = {name.lower() for name in join.using_columns}
        return [
            f"{quote(join.alias)}.{quote(column.name)} AS {quote(taken.get((join.alias, column.name), column.name))}"
            for column in join.columns
            if column.name.lower() not in shared
        ]


def _computed(expr: Expr, known: Sequence[Column]) -> str:
    """An expression that is NULL for a row where it would fail.

    Spark computes a column for every row: also for those that WHERE or FILTER leave out, which are no error rows.
    """
    guard = guard_of(expr, {column.name: column.type for column in known})
    return f"CASE WHEN ({guard}) IS NULL THEN {expr.text} END" if guard else expr.text
