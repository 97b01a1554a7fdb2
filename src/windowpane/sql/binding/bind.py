"""Statement to bound query: every name looked up, every clause in its place, everything else refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from windowpane.errors import Span
from windowpane.sql.binding.aggregates import aggregate_name
from windowpane.sql.binding.canonical import Shown, canonical_text, plan_id
from windowpane.sql.binding.comma_joins import with_comma_joins
from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.group_keys import GroupKeyBinder, is_ordinal, selected
from windowpane.sql.binding.grouping_sets import with_grouping_sets
from windowpane.sql.binding.merging import merge_results
from windowpane.sql.binding.outputs import OutputBinder
from windowpane.sql.binding.projections import ProjectionBinder, bound_column
from windowpane.sql.binding.relation import RelationBinder
from windowpane.sql.binding.result_names import Projection, ResultNames, first_aggregate
from windowpane.sql.binding.semi_joins import with_semi_joins
from windowpane.sql.binding.structure import check_structure
from windowpane.sql.binding.table_windows import check_table_window
from windowpane.sql.binding.window_groups import by_window_functions, has_groups
from windowpane.sql.builtins import refuse_unknown_functions
from windowpane.sql.query import (
    PSEUDO_COLUMNS,
    AggregateCall,
    BoundQuery,
    Emit,
    Expr,
    GroupKey,
    OrderKey,
    Output,
    QueryKind,
    Relation,
    Watermark,
    Window,
)
from windowpane.sql.result_steps import Filter, Over, ResultStep, Sort, count_calls, only_one
from windowpane.sql.scalar import all_of
from windowpane.sql.schema import Catalog
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.generators import refuse_selected_generator
from windowpane.sql.syntax.parse import guarded, parse
from windowpane.sql.syntax.statement import SelectStmt, WindowSyntax
from windowpane.sql.types import no_event_time


def bind(sql: str, catalog: Catalog, name: str = "") -> BoundQuery:
    """The bound query of a text; SqlError with code, place and hint for everything that cannot be run.

    `name` is that of its transform, which the transforms that it reads cannot read in turn.
    """
    stmt = parse(sql, catalog.queries, name, [*catalog.streams, *catalog.tables])
    bound = guarded(sql, lambda: bind_statement(stmt, catalog))
    return replace(bound, transforms=stmt.transforms, reads=stmt.reads)


def bind_statement(stmt: SelectStmt, catalog: Catalog) -> BoundQuery:
    """The bound query of a statement; one that only projects and filters the results of another is merged into it."""
    return merge_results(stmt, _Binder(stmt, catalog).bind())


class _Binder:
    def __init__(self, stmt: SelectStmt, catalog: Catalog) -> None:
        joined = with_comma_joins(with_semi_joins(stmt, catalog), catalog)
        self.stmt = stmt = with_grouping_sets(joined)
        self.source = stmt.source
        refuse_unknown_functions(stmt.source, stmt.trees(), catalog.has_function)
        relations = RelationBinder(catalog, lambda inner: bind_statement(inner, catalog))
        self.from_ = relations.bind(stmt)
        self.owners = tuple(dict.fromkeys((stmt.owner, *relations.owners)))
        inner = self.from_.relation.query
        if inner is not None and stmt.window is None and has_groups(stmt):
            self.stmt = stmt = by_window_functions(stmt, inner)
        self.rows = RowExpressions(stmt.source, self.from_.scope, self.from_.types)
        self.names = ResultNames(stmt.source, self.rows, stmt.window)
        self.shown = Shown(limit=stmt.limit, distinct="DISTINCT " if stmt.distinct else "")

    def bind(self) -> BoundQuery:
        stmt = self.stmt
        own = [self.rows.condition(stmt.where, "WHERE")] if stmt.where is not None else []
        window = _bind_window(self.rows, stmt.window) if stmt.window is not None else None
        projections = ProjectionBinder(self.source, self.names).bind(stmt.projections)
        items = self._group_items(projections)
        keys, nodes = GroupKeyBinder(self.source, self.rows, projections).bind(items)
        kind = "aggregate" if items else self._kind(projections)
        inner = self.from_.relation.query
        check_structure(stmt, kind, first_aggregate(self.source, projections), inner)
        if kind == "aggregate":
            refuse_selected_generator(self.source, stmt.projections)
        check_table_window(stmt, kind, keys, self.rows)
        keys = self._with_partition(keys, window) if kind == "aggregate" else ()
        nodes += stmt.window.partition_by if stmt.window else ()
        out = OutputBinder(
            self.source,
            self.rows,
            kind=kind,
            keys=keys,
            key_nodes=tuple(nodes),
            first_over=count_calls(inner.steps) if inner else 0,
        )
        results = _Results(self, projections, out)
        outputs, steps = results.outputs(), results.steps()
        query = BoundQuery(
            text=self.source.sql,
            canonical="",
            plan_id="",
            kind=kind,
            relation=self._relation(),
            outputs=outputs,
            where=all_of([*self.from_.where, *own]),
            window=window,
            keys=keys,
            aggregates=tuple(results.out.aggregates),
            carried=tuple(results.out.carried.values()),
            steps=steps,
            watermark=self._watermark(),
            emit=stmt.emit or Emit(),
            owners=self.owners,
        )
        canonical = canonical_text(query, self.shown)
        aggregates = query.aggregates or _only_group(kind, keys)
        return replace(query, aggregates=aggregates, canonical=canonical, plan_id=plan_id(canonical))

    def _relation(self) -> Relation:
        """FROM, with the names by which the query knows columns that only Spark does."""
        opened = [source for source in self.from_.leaves if source.open and source.prefix]
        names = [(name, source.alias, own) for source in opened for name, own in source.used.items()]
        return replace(self.from_.relation, renamed=(*self.from_.relation.renamed, *names))

    def _watermark(self) -> Watermark | None:
        """The query's own clause, or that of a subquery that is merged into it."""
        own, inner = self.stmt.watermark, self.from_.watermark
        if own is not None and inner is not None:
            hint = "leave one of them out: the subquery is merged into the query around it"
            raise self.source.error("DUPLICATE_CLAUSE", "a second WATERMARK clause", hint, at=own.span)
        return own or inner

    def text_of(self, node: exp.Expr, text: str) -> str:
        """The text of a resolved tree; a column that is named like one of the window's keeps its qualifier."""
        if self.stmt.window is None or not any(self.rows.known(name) for name in PSEUDO_COLUMNS):
            return text
        shown = node.copy()
        stream = self.from_.relation.streams[0]
        alias = stream.alias if self.from_.relation.joins else self.from_.relation.alias and stream.name
        for column in shown.find_all(exp.Column):
            if column.name in PSEUDO_COLUMNS and not column.meta.get("pseudo"):
                column.set("table", exp.to_identifier(alias))
        return render(shown)

    def _group_items(self, projections: list[Projection]) -> Sequence[exp.Expr]:
        """The items of GROUP BY. `SELECT DISTINCT a, b` of a window's rows groups by a and b."""
        stmt = self.stmt
        if stmt.distinct is None or stmt.window is None or stmt.first_over() or self._kind(projections) != "rows":
            return stmt.group_by_exprs
        return [exp.Literal.number(at) for at, each in enumerate(projections, 1) if _reads_rows(each.node)]

    def _kind(self, projections: list[Projection]) -> QueryKind:
        ordered = (key.expr for key in self.stmt.order_by)
        conditions = [part for part in (self.stmt.having, self.stmt.qualify, *ordered) if part is not None]
        trees = [projection.node for projection in projections] + conditions
        if any(aggregate_name(part) for tree in trees for part in tree.walk()) or self.stmt.is_grouped:
            return "aggregate"
        return "rows" if self.stmt.window is not None else "plain"

    def _with_partition(self, keys: tuple[GroupKey, ...], window: Window | None) -> tuple[GroupKey, ...]:
        known = {key.expr.text for key in keys}
        extra = [expr for expr in (window.partition_by if window else ()) if expr.text not in known]
        return keys + tuple(GroupKey(f"_k{len(keys) + index}", expr.text, expr) for index, expr in enumerate(extra))


@dataclass(frozen=True)
class _Results:
    """Binds SELECT, HAVING and ORDER BY, in this order: later clauses may name what earlier ones compute."""

    binder: _Binder
    projections: list[Projection]
    out: OutputBinder

    def outputs(self) -> tuple[Output, ...]:
        found = []
        for projection in self.projections:
            self.binder.shown.select.append(
                f"{self.binder.text_of(projection.node, projection.text)} AS {render(bound_column(projection.name))}"
            )
            node = self.out.rewrite(projection.node)
            self.out.outputs.append((projection.name, node))
            found.append(Output(projection.name, self.out.finish(node, projection.span)))
        return tuple(found)

    def steps(self) -> tuple[ResultStep, ...]:
        having = self.condition(self.binder.stmt.having, "HAVING")
        qualify = self.condition(self.binder.stmt.qualify, "QUALIFY")
        order, calls = self.order_by(), tuple(self.out.over.calls)
        names = {call.name for call in calls}
        if having and names.intersection(having[0].condition.columns):
            at = having[0].condition.span
            message, hint = "HAVING chooses groups before window functions are computed", "use QUALIFY"
            raise self.binder.source.error("OVER_PLACE", message, hint, at=at)
        if qualify and not calls:
            message, hint = "QUALIFY needs a window function", "use HAVING for groups, WHERE for rows"
            raise self.binder.source.error("QUALIFY_WITHOUT_OVER", message, hint, at=qualify[0].condition.span)
        over = (Over(calls),) if calls else ()
        steps = (*having, *over, *qualify, *self.distinct(order))
        return (*steps, Sort(order, self.binder.stmt.limit)) if order else steps

    def distinct(self, order: tuple[OrderKey, ...]) -> tuple[ResultStep, ...]:
        """SELECT DISTINCT of results: one row of those that are alike. Groups whose keys are selected differ anyway."""
        at = self.binder.stmt.distinct
        outputs = [self.out.finish(node, None) for _, node in self.out.outputs]
        texts = {expr.text for expr in outputs}
        if at is None or (self.out.keys and texts.issuperset(key.name for key in self.out.keys)):
            return ()
        strange = next((key.expr for key in order if key.expr.text not in texts), None)
        if strange is not None:
            message = "with DISTINCT, ORDER BY takes selected expressions only"
            hint = "select what you order by"
            raise self.binder.source.error("SELECT_DISTINCT", message, hint, at=strange.span)
        return only_one(f"_w{self.out.over.first + len(self.out.over.calls)}", tuple(outputs), at)

    def condition(self, node: exp.Expr | None, clause: Literal["HAVING", "QUALIFY"]) -> tuple[Filter, ...]:
        if node is None:
            return ()
        span = self.binder.source.span(node)
        expr, self.binder.shown.conditions[clause] = self._after(node, clause, span)
        if expr.type not in (None, "BOOLEAN"):
            message = f"{clause} needs a condition, `{self.binder.source.quote(span)}` is of type {expr.type}"
            raise self.binder.source.error("NOT_BOOLEAN", message, "compare it with something", at=span)
        return (Filter(expr, clause),)

    def order_by(self) -> tuple[OrderKey, ...]:
        found = []
        for item in self.binder.stmt.order_by:
            span = self.binder.source.span(item.expr)
            node = item.expr
            if is_ordinal(node):
                node = bound_column(selected(self.binder.source, node, self.projections).name, node)
                node.meta.update(alias=True)
            expr, shown = self._after(node, "ORDER BY", span)
            nulls = "FIRST" if item.nulls_first else "LAST"
            self.binder.shown.order_by.append(f"{shown} {'DESC' if item.descending else 'ASC'} NULLS {nulls}")
            found.append(OrderKey(expr, item.descending, item.nulls_first))
        return tuple(found)

    def _after(self, node: exp.Expr, place: str, span: Span | None) -> tuple[Expr, str]:
        """An expression that may use aliases, bound over internal names, and its resolved text."""
        aliases = {projection.name.lower(): projection for projection in self.projections}
        resolved = self.binder.names.resolve(node, place, aliases, self.out.keys)
        shown = self.binder.text_of(resolved, render(resolved))
        numbers = {projection.name.lower(): index for index, projection in enumerate(self.projections)}
        return self.out.finish(self.out.rewrite(resolved, numbers), span), shown


def _reads_rows(node: exp.Expr) -> bool:
    """Whether an expression depends on the row, and not on its window alone."""
    return any(not column.meta.get("pseudo") for column in node.find_all(exp.Column))


def _bind_window(rows: RowExpressions, window: WindowSyntax) -> Window:
    on = rows.bind(window.on, "ON") if window.on is not None else None
    # A column may be the event time that its stream declares, of any type: the planner checks it.
    if on is not None and not isinstance(window.on, exp.Column) and (problem := no_event_time(on.text, on.type)):
        raise rows.source.error("EVENT_TIME_TYPE", *problem, at=on.span)
    return Window(
        spec=window.spec,
        on=on,
        partition_by=tuple(rows.bind(expr, "PARTITION BY") for expr in window.partition_by),
        when=rows.condition(window.when, "WHEN") if window.when is not None else None,
        open=rows.condition(window.open, window.spelling) if window.open is not None else None,
        emit=rows.condition(window.emit, window.spelling) if window.emit is not None else None,
        span=window.span,
    )


def _only_group(kind: QueryKind, keys: Sequence[GroupKey]) -> tuple[AggregateCall, ...]:
    """A window that is one group and computes nothing counts its rows, so that the group has something to keep."""
    return (AggregateCall("_a0", "count", (), type="BIGINT"),) if kind == "aggregate" and not keys else ()
