"""Conditions on one side of a join whose rows are joined rows, or rows of a window: evaluated where these are read.

Only there, any expression is possible: between two queries, workers have to compute it as Spark does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windowpane.plan.context import PlanContext
from windowpane.plan.stream_joins import split_conditions
from windowpane.sql import all_of, split_conjunction, substitute_columns
from windowpane.sql.query import BoundQuery, Expr, UnionBranch


def with_conditions_below(context: PlanContext) -> PlanContext:
    """The query with what ON and WHERE ask of the rows of one side moved into the query that has them."""
    bound, join = context.bound, context.bound.relation.stream_join
    if join is None or not bound.relation.joins_results:
        return context
    split, moved, branches = split_conditions(join, bound.where), set[str](), list[UnionBranch]()
    for branch, conditions in zip(bound.relation.branches, (split.left, split.right), strict=True):
        query = branch.query
        if query is None or not _takes_conditions(query):
            branches.append(branch)
            continue
        within = {condition.text: _within(condition, branch, query) for condition in conditions}
        own = [each for each in within.values() if each is not None]
        moved |= {text for text, each in within.items() if each is not None}
        where = all_of([*([query.where] if query.where else []), *own])
        branches.append(replace(branch, query=replace(query, where=where)))
    relation = replace(
        bound.relation,
        stream_join=replace(join, conditions=tuple(_left(join.conditions, moved))),
        branches=tuple(branches),
    )
    where = all_of(_left([bound.where] if bound.where else [], moved))
    return replace(context, bound=replace(bound, relation=relation, where=where))


def _takes_conditions(query: BoundQuery) -> bool:
    """Whether its results are rows as they come, with the columns that they have there."""
    return query.kind != "aggregate" and not query.steps and query.relation.query is None


def _within(condition: Expr, branch: UnionBranch, query: BoundQuery) -> Expr | None:
    """A condition over the columns of the join, over those of what the query reads; None if it is about its window."""
    results = substitute_columns(condition, dict(branch.projection))
    selected = substitute_columns(results, {output.name: output.expr for output in query.outputs})
    carried = {key.name: key.expr for key in query.carried}
    return substitute_columns(selected, carried) if carried.keys() >= set(selected.columns) else None


def _left(conditions: Sequence[Expr], moved: set[str]) -> list[Expr]:
    return [part for each in conditions for part in split_conjunction(each) if part.text not in moved]
