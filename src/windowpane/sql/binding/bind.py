"""Statement to bound query: every name looked up, every clause in its place, everything else refused."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from windowpane.errors import Span, nearest
from windowpane.sql.binding.aggregates import aggregate_name
from windowpane.sql.binding.canonical import Shown, canonical_text, plan_id
from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.outputs import OutputBinder, Projection
from windowpane.sql.binding.relation import BoundRelation, bind_relation
from windowpane.sql.binding.scope import name_node
from windowpane.sql.binding.structure import check_structure
from windowpane.sql.builtins import refuse_unknown_functions
from windowpane.sql.query import (
    PSEUDO_COLUMNS,
    BoundQuery,
    Emit,
    Expr,
    GroupKey,
    OrderKey,
    Output,
    QueryKind,
    Relation,
    Window,
)
from windowpane.sql.schema import Catalog
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.parse import guarded, parse
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import SelectStmt, WindowSyntax
from windowpane.sql.types import TIMES


def bind(sql: str, catalog: Catalog) -> BoundQuery:
    """The bound query of a text; SqlError with code, place and hint for everything that cannot be run."""
    stmt = parse(sql)
    return guarded(sql, lambda: _Binder(stmt, catalog).bind())


class _Binder:
    def __init__(self, stmt: SelectStmt, catalog: Catalog) -> None:
        self.stmt, self.source = stmt, stmt.source
        refuse_unknown_functions(stmt.source, stmt.trees(), catalog.has_function)
        self.from_: BoundRelation = bind_relation(stmt.source, stmt.from_, stmt.joins, catalog)
        self.rows = RowExpressions(stmt.source, self.from_.scope, dict(self.from_.scope.types()))
        self.out = OutputBinder(stmt.source, self.rows, stmt.window)
        self.shown = Shown()

    def bind(self) -> BoundQuery:
        stmt = self.stmt
        where = self.rows.condition(stmt.where, "WHERE") if stmt.where is not None else None
        window = _bind_window(self.rows, stmt.window) if stmt.window is not None else None
        projections = self._projections()
        keys, nodes = self._keys(projections)
        kind = self._kind(projections)
        check_structure(stmt, kind, self._first_aggregate(projections))
        keys = self._with_partition(keys, window) if kind == "aggregate" else ()
        self.out.kind, self.out._key_nodes = kind, (*nodes, *(stmt.window.partition_by if stmt.window else ()))
        self.out.use_keys(keys)
        outputs = self._outputs(projections)
        having = self._having(projections)
        order_by = self._order_by(projections)
        query = BoundQuery(
            text=self.source.sql,
            canonical="",
            plan_id="",
            kind=kind,
            relation=self._relation(),
            outputs=outputs,
            where=where,
            window=window,
            keys=keys,
            aggregates=tuple(self.out.aggregates),
            carried=tuple(self.out.carried.values()),
            having=having,
            order_by=order_by,
            limit=stmt.limit,
            watermark=stmt.watermark,
            emit=stmt.emit or Emit(),
        )
        canonical = canonical_text(query, self.shown)
        return replace(query, canonical=canonical, plan_id=plan_id(canonical))

    def _relation(self) -> Relation:
        """FROM, with the names by which the query knows columns that only Spark does."""
        opened = [source for source in self.from_.scope.sources if source.open and source.prefix]
        names = [(name, source.alias, own) for source in opened for name, own in source.used.items()]
        return replace(self.from_.relation, renamed=(*self.from_.relation.renamed, *names))

    def _shown(self, node: exp.Expr, text: str) -> str:
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

    def _projections(self) -> list[Projection]:
        found: list[Projection] = []
        for item in self.stmt.projections:
            found += self._star(item) if item.is_star else [self._projection(item)]
        _refuse_duplicates(self.source, found)
        return found

    def _projection(self, item: exp.Expr) -> Projection:
        span = self.source.span(item)
        inner = item.this if isinstance(item, exp.Alias) else item
        node = self.out.resolve(inner, "SELECT")
        text = render(node)
        return Projection(item.alias if isinstance(item, exp.Alias) else _own_label(node, text), node, text, span)

    def _star(self, item: exp.Expr) -> list[Projection]:
        star = item if isinstance(item, exp.Star) else item.this
        owner = item.table if isinstance(item, exp.Column) else ""
        sides = [side for side in self.from_.visible if not owner or side[0].lower() == owner.lower()]
        if not sides:
            message, hint = f"there is no `{owner}` in FROM", f"write {self.from_.visible[0][0]}.*"
            raise self.source.error("UNKNOWN_STREAM", message, hint, at=item)
        excluded = {column.name.lower(): column for column in star.args.get("except_") or ()}
        found = [column for alias, columns in sides for column in self._columns_of(alias, columns, item)]
        for name, node in excluded.items():
            if name not in {output.lower() for output, _ in found}:
                hint = f"columns are: {nearest(name, [output for output, _ in found])}"
                raise self.source.error("UNKNOWN_COLUMN", f"there is no column `{name}`", hint, at=node)
        span = self.source.span(item)
        kept = [(output, name) for output, name in found if output.lower() not in excluded]
        nodes = [(output, _bound_column(name, item)) for output, name in kept]
        return [Projection(output, node, render(node), span) for output, node in nodes]

    def _columns_of(
        self, alias: str, columns: tuple[tuple[str, str], ...] | None, item: exp.Expr
    ) -> tuple[tuple[str, str], ...]:
        if columns is None:
            message = f"the columns of `{alias}` are unknown, so `*` cannot be used"
            raise self.source.error("NEEDS_SCHEMA", message, "list the columns, or declare a schema", at=item)
        return columns

    def _keys(self, projections: list[Projection]) -> tuple[tuple[GroupKey, ...], list[exp.Expr]]:
        keys: dict[str, GroupKey] = {}
        nodes: list[exp.Expr] = []
        for given in self.stmt.group_by_exprs:
            span, item = self.source.span(given), given.unnest()
            node = self._ordinal_or_alias(item, projections)
            label = self._ordinal(item, projections).name if _is_ordinal(item) else self.source.quote(span)
            expr = self.rows.bind(node if node is not None else item, "GROUP BY")
            if expr.text not in keys:
                keys[expr.text] = GroupKey(f"_k{len(keys)}", label, Expr(expr.text, expr.type, expr.columns, span))
                nodes.append(node if node is not None else item)
        return tuple(keys.values()), nodes

    def _ordinal_or_alias(self, item: exp.Expr, projections: list[Projection]) -> exp.Expr | None:
        """The selected expression that a GROUP BY item stands for, None when it stands for itself."""
        if _is_ordinal(item):
            return self._ordinal(item, projections).node.copy()
        if not isinstance(item, exp.Column) or len(item.parts) != 1 or self._is_column(item):
            return None
        found = [each for each in projections if each.name.lower() == item.name.lower()]
        return found[0].node.copy() if found and not found[0].node.meta.get("pseudo") else None

    def _is_column(self, item: exp.Column) -> bool:
        return any(source.find(item.name) is not None for source in self.from_.scope.sources)

    def _ordinal(self, item: exp.Expr, projections: list[Projection]) -> Projection:
        index = int(item.name)
        if not 1 <= index <= len(projections):
            message = f"there is no column number {index}, {len(projections)} are selected"
            raise self.source.error("BAD_ORDINAL", message, "name the column", at=item)
        return projections[index - 1]

    def _first_aggregate(self, projections: list[Projection]) -> Span | None:
        for projection in projections:
            for part in projection.node.walk():
                if aggregate_name(part):
                    return self.source.span(part) or projection.span
        return None

    def _kind(self, projections: list[Projection]) -> QueryKind:
        conditions = [
            part for part in (self.stmt.having, *(key.expr for key in self.stmt.order_by)) if part is not None
        ]
        trees = [projection.node for projection in projections] + conditions
        if any(aggregate_name(part) for tree in trees for part in tree.walk()) or self.stmt.group_by_exprs:
            return "aggregate"
        return "rows" if self.stmt.window is not None else "plain"

    def _with_partition(self, keys: tuple[GroupKey, ...], window: Window | None) -> tuple[GroupKey, ...]:
        known = {key.expr.text for key in keys}
        extra = [expr for expr in (window.partition_by if window else ()) if expr.text not in known]
        return keys + tuple(GroupKey(f"_k{len(keys) + index}", expr.text, expr) for index, expr in enumerate(extra))

    def _outputs(self, projections: list[Projection]) -> tuple[Output, ...]:
        found = []
        for projection in projections:
            self.shown.select.append(
                f"{self._shown(projection.node, projection.text)} AS {render(_bound_column(projection.name))}"
            )
            node = self.out.rewrite(projection.node)
            self.out.outputs.append((projection.name, node))
            found.append(Output(projection.name, self.out.finish(node, projection.span)))
        return tuple(found)

    def _having(self, projections: list[Projection]) -> Expr | None:
        if self.stmt.having is None:
            return None
        span = self.source.span(self.stmt.having)
        expr, self.shown.having = self._after(self.stmt.having, "HAVING", projections, span)
        if expr.type not in (None, "BOOLEAN"):
            message = f"HAVING needs a condition, `{self.source.quote(span)}` is of type {expr.type}"
            raise self.source.error("NOT_BOOLEAN", message, "compare it with something", at=span)
        return expr

    def _order_by(self, projections: list[Projection]) -> tuple[OrderKey, ...]:
        found = []
        for item in self.stmt.order_by:
            span = self.source.span(item.expr)
            node = item.expr
            if _is_ordinal(node):
                node = _bound_column(self._ordinal(node, projections).name, node)
                node.meta.update(alias=True)
            expr, shown = self._after(node, "ORDER BY", projections, span)
            nulls = "FIRST" if item.nulls_first else "LAST"
            self.shown.order_by.append(f"{shown} {'DESC' if item.descending else 'ASC'} NULLS {nulls}")
            found.append(OrderKey(expr, item.descending, item.nulls_first))
        return tuple(found)

    def _after(self, node: exp.Expr, place: str, projections: list[Projection], span: Span | None) -> tuple[Expr, str]:
        """An expression that may use aliases, bound over internal names, and its resolved text."""
        aliases = {projection.name.lower(): projection for projection in projections}
        resolved = self.out.resolve(node, place, aliases)
        shown = self._shown(resolved, render(resolved))
        numbers = {projection.name.lower(): index for index, projection in enumerate(projections)}
        return self.out.finish(self.out.rewrite(resolved, numbers), span), shown


def _bind_window(rows: RowExpressions, window: WindowSyntax) -> Window:
    on = rows.bind(window.on, "ON") if window.on is not None else None
    if on is not None and on.type is not None and on.type not in (*TIMES, "STRING"):
        message = f"the event time must be a timestamp, `{on.text}` is of type {on.type}"
        hint = f"write timestamp_millis({on.text}) or timestamp_seconds({on.text})"
        raise rows.source.error("EVENT_TIME_TYPE", message, hint, at=on.span)
    return Window(
        spec=window.spec,
        on=on,
        partition_by=tuple(rows.bind(expr, "PARTITION BY") for expr in window.partition_by),
        when=rows.condition(window.when, "WHEN") if window.when is not None else None,
        open=rows.condition(window.open, window.spelling) if window.open is not None else None,
        emit=rows.condition(window.emit, window.spelling) if window.emit is not None else None,
        span=window.span,
    )


def _bound_column(name: str, like: exp.Expr | None = None) -> exp.Expr:
    node = name_node(name, like)
    node.meta["bound"] = True
    return node


def _is_ordinal(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def _own_label(node: exp.Expr, text: str) -> str:
    """What a result without an alias is called: a column by its name in the schema, else its canonical text."""
    if isinstance(node, exp.Column):
        return str(node.meta.get("own", node.name))
    return str(node.expression.name) if isinstance(node, exp.Dot) else text


def _refuse_duplicates(source: SourceText, projections: list[Projection]) -> None:
    seen: set[str] = set()
    for projection in projections:
        if projection.name.lower() in seen:
            message = f"two columns of the result are called `{projection.name}`"
            raise source.error("DUPLICATE_OUTPUT", message, "give one another name: … AS name", at=projection.span)
        seen.add(projection.name.lower())
