"""Joins of a stream with a static table, done by Spark so that no row stops the query and none gets lost."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windowpane.core import columns as c
from windowpane.errors import PlanError
from windowpane.evaluation.reasons import EVALUATION_ERROR
from windowpane.plan.columns import quote
from windowpane.plan.guard import in_words
from windowpane.spark.envelope import fallible, held, tried
from windowpane.spark.python_functions import shielded
from windowpane.sql import conjuncts, error_guard
from windowpane.sql.query import Relation, StaticJoin
from windowpane.sql.scalar import Conjunct

KEEP = "_from_keep"
"""Whether FROM keeps a row: WHERE of a branch of a union holds, an inner join has found a partner."""
JOIN_ERROR, JOIN_DETAIL, BRANCH_ERROR = "_join_error", "_join_detail", "_branch_error"
_MATCHED = "_matched"


@dataclass(frozen=True)
class _Condition:
    """A part of ON that never fails, and SQL that is NULL unless it could not be computed: then the reason."""

    text: str
    error: str | None = None
    blamed: str = ""


@dataclass(frozen=True)
class JoinedTable:
    """One join of a query."""

    spark: SparkSession
    relation: Relation
    join: StaticJoin

    def to(self, source: DataFrame, table: DataFrame) -> DataFrame:
        """A stream row without a partner has been read, so it stays: as an unmatched row, or where the join is an anti
        join, the row with a partner as a filtered one.
        """
        join = self.join
        stream_view, table_view = (f"wp_{uuid.uuid4().hex}" for _ in range(2))
        kind = join.text.partition("JOIN ")[0].strip()
        one_sided = self._is_one_sided
        if one_sided:
            table = self._compared(table)
        table = table.withColumn(_MATCHED, F.lit(True))
        source.createOrReplaceTempView(stream_view)
        table.createOrReplaceTempView(table_view)
        parts = self._conditions(source, table)
        stream, alias = self._stream, quote(join.alias)
        kept = self._partner(kind, f"{alias}.{_MATCHED}")
        before = f"coalesce({stream}.{KEEP}, TRUE)" if KEEP in source.columns else None
        kept = f"{before} AND {kept}" if before else kept
        hidden = (KEEP, c.UNMATCHED, JOIN_ERROR, JOIN_DETAIL)
        columns = [f"{stream}.{quote(name)}" for name in source.columns if name not in hidden]
        columns += [*([] if one_sided else self._table_columns()), f"{kept} AS {KEEP}"]
        columns += self._unmatched(source, kind, f"{alias}.{_MATCHED} IS NULL", before)
        columns += self._errors(source, parts, before)
        on = " AND ".join(part.text for part in parts) or "TRUE"
        sql = f"SELECT {', '.join(columns)} FROM {stream_view} AS {stream} LEFT JOIN {table_view} AS {alias} ON {on}"
        return self.spark.sql(sql)

    @property
    def _stream(self) -> str:
        return quote(self.relation.alias)

    def _conditions(self, source: DataFrame, table: DataFrame) -> list[_Condition]:
        alias = quote(self.join.alias)
        text = self.join.text.partition(" ON ")[2]
        if self.join.using_columns:
            text = " AND ".join(
                f"{self._stream}.{quote(name)} = {alias}.{quote(name)}" for name in self.join.using_columns
            )
        if not text:
            return []
        pairs = source.alias(self.relation.alias).crossJoin(table.alias(self.join.alias))
        parts = conjuncts(text, self.join.alias)
        if self._is_one_sided:
            parts = [part for part in parts if not part.of_table]
        risky = fallible(pairs, [part.text for part in parts])
        held = f"{self._stream}.{quote(source.columns[0])}", f"{alias}.{quote(table.columns[0])}"
        return [
            _safe(self.spark, part, pairs, *held) if part.text in risky else _Condition(f"({part.text})")
            for part in parts
        ]

    def _errors(self, source: DataFrame, parts: list[_Condition], before: str | None) -> list[str]:
        """Why a row could not be joined, by this join or by one before it."""
        found = [f"{self._stream}.{JOIN_ERROR}"] if JOIN_ERROR in source.columns else []
        said = [f"{self._stream}.{JOIN_DETAIL}"] if JOIN_ERROR in source.columns else []
        found += [part.error for part in parts if part.error]
        said += [f"CASE WHEN {part.error} IS NOT NULL THEN '{part.blamed}' END" for part in parts if part.error]
        if not found:
            return []
        error, detail = f"coalesce({', '.join(found)})", f"coalesce({', '.join(said)})"
        return [
            f"{f'CASE WHEN {before} THEN {text} END' if before else text} AS {name}"
            for text, name in ((error, JOIN_ERROR), (detail, JOIN_DETAIL))
        ]

    @property
    def makes_rows(self) -> bool:
        """Whether a row may become several. They follow each other: the stream is the side that Spark goes through."""
        return not self._is_one_sided

    @property
    def _is_one_sided(self) -> bool:
        """A semi or anti join."""
        return self.join.text.startswith(("LEFT SEMI", "LEFT ANTI", "SEMI", "ANTI"))

    def _compared(self, table: DataFrame) -> DataFrame:
        """The table's columns that a semi or anti join compares: distinct, a row has at most one partner in them.

        Conditions on the table alone are applied before.
        """
        join = self.join
        if join.using_columns:
            return table.select(*join.using_columns).distinct()
        parts = conjuncts(join.text.partition(" ON ")[2], join.alias)
        if any(part.left is None and not part.of_table for part in parts) or all(part.left is None for part in parts):
            raise PlanError(
                "UNSUPPORTED_JOIN", f"`{join.text}` does not compare by equality",
                "a semi or anti join takes USING (…), or ON with equalities joined by AND",
            )  # fmt: skip
        rows = table.alias(join.alias)
        for part in parts:
            if part.of_table:
                risky = fallible(rows, [part.text])
                column = f"{quote(join.alias)}.{quote(table.columns[0])}"
                rows = rows.where(tried(part.text, column) if risky else part.text)
        columns = dict.fromkeys(name for part in parts if part.left is not None for name in part.columns)
        return rows.select(*(F.col(f"{quote(join.alias)}.{quote(name)}") for name in columns)).distinct()

    def _partner(self, kind: str, matched: str) -> str:
        """Whether a row is kept, by the kind of join."""
        if kind == "LEFT":
            return "TRUE"
        return f"{matched} IS NULL" if "ANTI" in kind else f"{matched} IS NOT NULL"

    def _unmatched(self, source: DataFrame, kind: str, alone: str, before: str | None) -> list[str]:
        """Whether a row lacks the partner that this join, or one before it, asks for."""
        parts = [f"coalesce({self._stream}.{c.UNMATCHED}, FALSE)"] if c.UNMATCHED in source.columns else []
        if kind != "LEFT" and "ANTI" not in kind:
            parts.append(f"({before} AND {alone})" if before else alone)
        return [f"{' OR '.join(parts)} AS {c.UNMATCHED}"] if parts else []

    def _table_columns(self) -> list[str]:
        """Columns of the table, under new names where they clash; without a declared schema, those that are used."""
        join = self.join
        taken = {column: name for name, alias, column in self.relation.renamed if alias == join.alias}
        shared = {name.lower() for name in join.using_columns}
        return [
            f"{quote(join.alias)}.{quote(column)} AS {quote(taken.get(column, column))}"
            for column in [column.name for column in join.columns] or taken
            if column.lower() not in shared
        ]


def _safe(spark: SparkSession, part: Conjunct, pairs: DataFrame, stream: str, table: str) -> _Condition:
    """A part that can fail. An equality stays one, so that Spark need not compare every row with every other.

    A pair for which anything else fails is joined, as an error row. `stream`, `table`: a column of each side.
    """
    blamed = f"cannot compute {in_words(part.text)}"
    if part.left is None or part.right is None:
        if shielded(spark, part.text, str) != part.text:
            raise PlanError(
                "UNSUPPORTED_JOIN", f"ON calls a Python UDF in `{in_words(part.text)}`, which is not an equality",
                "in ON, call Python UDFs on either side of `=` between stream and table only; else use WHERE",
            )  # fmt: skip
        whole = held(part.text, stream)
        return _Condition(f"coalesce({whole}.v, {whole} IS NULL)", _why(part.text, whole), blamed)
    compared = pairs.selectExpr(f"{part.text} AS v")
    kind = _compared_type(compared)
    sides = (
        shielded(spark, part.left, partial(tried, column=stream)),
        shielded(spark, part.right, partial(tried, column=table)),
    )
    left, right = (f"CAST({side} AS {kind})" for side in sides)
    error = _why(left, held(left, stream))
    return _Condition(f"{tried(left, stream)} = {tried(right, table)}", error, blamed)


def _compared_type(compared: DataFrame) -> str:
    """The type to which Spark brings both sides of an equality."""
    equality: Any = compared._jdf.queryExecution().analyzed().expressions().head().child()  # noqa: SLF001
    return str(equality.left().dataType().sql())


def _why(text: str, envelope: str) -> str:
    guard = error_guard(text, {})
    known = f"{tried(guard)}, " if guard else ""
    return f"CASE WHEN {envelope} IS NULL THEN coalesce({known}'{EVALUATION_ERROR}') END"
