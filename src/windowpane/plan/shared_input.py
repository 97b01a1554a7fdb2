"""One input for several queries that read streams: each stream is read once, however many queries read it.

Each query has its columns in the input under names of its own, and a column that says which of its rows WHERE keeps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from windowpane.errors import PlanError
from windowpane.plan import physical
from windowpane.plan.columns import quote
from windowpane.plan.guard import branch_error
from windowpane.plan.input_staging import input_stage
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import InputColumn
from windowpane.plan.stages import InputStage, LeafStage
from windowpane.plan.traversal import rewrite, walk
from windowpane.sql import all_of, rename_columns, substitute_columns
from windowpane.sql.query import Column, Expr, Relation

PREFIX = "_q"
"""What the columns of queries begin with in the input: `_q0_k0`."""
STREAM = "_stream"
"""int: which stream a row is of."""
KEPT = "_kept"


@dataclass(frozen=True)
class Leaf:
    """A query over streams, or a side of a join that is a stream."""

    stage: LeafStage
    source: PlanNode
    columns: tuple[InputColumn, ...]
    where: str | None
    original: bool

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{self.stage.number}"

    def branches(self) -> list[physical.PhysicalBranch]:
        """Its streams, each with the columns that the query computes from."""
        if isinstance(self.source, physical.PhysicalUnion):
            return [branch for branch in self.source.branches if isinstance(branch, physical.PhysicalBranch)]
        if isinstance(self.source, physical.PhysicalBranch):
            return [self.source]
        known = _known(self.source)
        own = tuple((column.name, Expr(quote(column.name), column.type, (column.name,))) for column in known)
        return [physical.PhysicalBranch(self.source, own, None, known=known)]

    def flag(self, branch: physical.PhysicalBranch) -> Expr:
        """Whether WHERE keeps a row of a branch."""
        values, own = dict(branch.projection), [branch.where] if branch.where else []
        wheres = [column.expr for column in self.columns if column.name == self.where]
        return all_of([*own, *(substitute_columns(each, values) for each in wheres)]) or Expr("TRUE", "BOOLEAN")

    def projected(self, branch: physical.PhysicalBranch) -> list[tuple[str, Expr]]:
        """What a branch projects for this query. Nothing is computed of a row that WHERE drops."""
        flag = self.flag(branch)
        read = {name for column in self.columns for name in column.expr.columns}
        read |= {name for column in self.columns if column.under for name in column.under.columns}
        found = [(f"{self.prefix}{KEPT}", flag)]
        for name, expr in branch.projection:
            if name in read:
                plain = expr.columns == (expr.text.strip("`"),) or not expr.columns or flag.text == "TRUE"
                text = expr.text if plain else f"CASE WHEN {flag.text} THEN {expr.text} END"
                columns = tuple(dict.fromkeys((*expr.columns, *(() if plain else flag.columns))))
                found.append((f"{self.prefix}x_{name}", replace(expr, text=text, columns=columns)))
        return found

    def crossing(self) -> list[InputColumn]:
        """Its columns of the input."""
        kept = f"{self.prefix}{KEPT}"
        flag = Expr(kept, "BOOLEAN", (kept,))
        names = {name: f"{self.prefix}x_{name}" for column in self.columns for name in column.expr.columns}
        names |= {name: f"{self.prefix}x_{name}" for column in self.columns if column.under
                  for name in column.under.columns}  # fmt: skip
        found = [InputColumn(kept, flag, "key")]
        for column in self.columns:
            if column.name != self.where:
                under = all_of([flag, rename_columns(column.under, names)]) if column.under else flag
                expr = rename_columns(column.expr, names)
                found.append(InputColumn(f"{self.prefix}{column.name}", expr, "key", under=under))
        return found


def input_of(leaves: Sequence[Leaf]) -> tuple[InputStage, list[LeafStage]]:
    """The input of all queries, and the stages that take their rows from it."""
    branches = [(leaf, branch) for leaf in leaves for branch in leaf.branches()]
    streams = list(dict.fromkeys(_stream(branch) for _, branch in branches))
    projected = {stream: dict[str, Expr]() for stream in streams}
    for leaf, branch in branches:
        projected[_stream(branch)] |= dict(leaf.projected(branch))
    columns = {name: expr.type or "" for own in projected.values() for name, expr in own.items()}
    united = []
    for number, stream in enumerate(streams):
        same = [branch for _, branch in branches if _stream(branch) == stream]
        child = _read_once(stream, [branch.child for branch in same])
        known = tuple(dict.fromkeys(column for branch in same for column in branch.known))
        own = [(STREAM, Expr(str(number), "INT"))]
        own += [(name, projected[stream].get(name) or _missing(name, kind)) for name, kind in columns.items()]
        united.append(physical.PhysicalBranch(child, tuple(own), None, branch_error(own, None, known), known))
    source = physical.PhysicalUnion(tuple(united))
    crossing = (InputColumn(STREAM, Expr(STREAM, "INT", (STREAM,)), "key"),
                *(column for leaf in leaves for column in leaf.crossing()))  # fmt: skip
    relation = Relation((), (Column(STREAM, "INT"), *(Column(name, kind) for name, kind in columns.items())))
    stages = [
        replace(leaf.stage, numbers=tuple(sorted({streams.index(_stream(each)) for each in leaf.branches()})),
                streams=tuple(streams) if len(streams) > 1 else ())
        for leaf in leaves
    ]  # fmt: skip
    original = any(leaf.original for leaf in leaves)
    return input_stage(source, relation, crossing, where=None, original=original, aliases=()), stages


def _missing(name: str, kind: str) -> Expr:
    """What a row of another stream has for a column of a query: WHERE of that query does not keep it."""
    is_flag = re.fullmatch(rf"{PREFIX}\d+{KEPT}", name) is not None
    return Expr("FALSE", "BOOLEAN") if is_flag else Expr(f"CAST(NULL AS {kind})", kind)


def _stream(branch: PlanNode) -> str:
    return next(node.stream for node in walk(branch) if isinstance(node, physical.PhysicalDataSource))


def _known(source: PlanNode) -> tuple[Column, ...]:
    for node in walk(source):
        if isinstance(node, physical.PhysicalStaticJoin):
            return node.relation.columns
        if isinstance(node, physical.PhysicalDataSource):
            return node.columns or ()
    return ()


def _read_once(stream: str, sources: Sequence[PlanNode]) -> PlanNode:
    """The same source with the columns that any of them reads."""
    bare = {_with_columns(source, None) for source in sources}
    if len(bare) > 1 or any(isinstance(node, physical.PhysicalGenerate) for each in bare for node in walk(each)):
        raise PlanError(
            "STREAM_READ_TWICE",
            f"stream `{stream}` is read by several parts of this query, with other event times, tables or explode",
            "read it in the same way in all of them: leave out `WINDOW … ON`, and join tables in another query",
        )
    read = [node.columns for source in sources for node in walk(source)
            if isinstance(node, physical.PhysicalDataSource)]  # fmt: skip
    columns = dict.fromkeys(column for each in read for column in each or ())
    return _with_columns(sources[0], tuple(columns))


def _with_columns(source: PlanNode, columns: tuple[Column, ...] | None) -> PlanNode:
    def change(node: PlanNode) -> PlanNode:
        if isinstance(node, physical.PhysicalDataSource):
            return replace(node, columns=columns, reading=1, alias=node.stream if columns is None else node.alias)
        return node

    return rewrite(source, change)
