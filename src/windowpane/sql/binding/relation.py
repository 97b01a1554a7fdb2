"""FROM: streams, subqueries, static joins and unions of streams, and the names they give to the query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from windowpane.errors import Span, nearest
from windowpane.sql.binding.comma_joins import with_comma_joins
from windowpane.sql.binding.expressions import RowExpressions, refuse_modifiers
from windowpane.sql.binding.generators import GeneratorBinder
from windowpane.sql.binding.grouping_sets import SET
from windowpane.sql.binding.joined_results import joined_as_results, windows_overlap
from windowpane.sql.binding.projections import ProjectionBinder
from windowpane.sql.binding.result_joins import HINT as JOIN_HINT
from windowpane.sql.binding.result_joins import join_with_groups
from windowpane.sql.binding.result_names import ResultNames, first_aggregate
from windowpane.sql.binding.scope import Scope, Source, name_node, needs_quotes
from windowpane.sql.binding.semi_joins import with_semi_joins
from windowpane.sql.binding.stream_join import bind_stream_join
from windowpane.sql.binding.structure import check_structure
from windowpane.sql.binding.table_places import in_order_of_from, tables_of_streams
from windowpane.sql.binding.table_queries import bind_table_query, reads_table
from windowpane.sql.binding.union import MergedQuery, bind_union
from windowpane.sql.binding.window_groups import has_groups
from windowpane.sql.builtins import refuse_unknown_functions
from windowpane.sql.query import BoundQuery, Column, Expr, Relation, StaticJoin, StreamRef, Watermark
from windowpane.sql.scalar import conjuncts
from windowpane.sql.schema import Catalog, lookup
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.generators import GeneratorSyntax, read_join, read_selected, read_view
from windowpane.sql.syntax.source import PLACEHOLDER, SourceText
from windowpane.sql.syntax.statement import SelectStmt, Statement, UnionStmt
from windowpane.sql.types import quoted


@dataclass(frozen=True)
class BoundRelation:
    """FROM, bound: the relation for the planner and the scope for the rest of the query.

    If FROM reads a subquery that is merged, the scope has the subquery's columns, and the relation is what the
    subquery reads.
    """

    relation: Relation
    scope: Scope
    types: dict[str, str | None]
    """Of the relation's columns."""
    leaves: tuple[Source, ...]
    """The relation's own streams and tables."""
    where: tuple[Expr, ...] = ()
    """The conditions of merged subqueries."""
    watermark: Watermark | None = None
    """The clause of a merged subquery."""


RESULTS_JOINED = "the results of a windowed query cannot be joined with a static table"
BindQuery = Callable[[SelectStmt], BoundQuery]


@dataclass(frozen=True)
class RelationBinder:
    """Binds FROM and its joins. `bind_query` binds a subquery with a window."""

    catalog: Catalog
    bind_query: BindQuery
    bound: dict[int, BoundQuery] = field(default_factory=dict)
    """Subqueries with a window that are bound already."""
    owners: dict[str, None] = field(default_factory=dict)
    """The transforms whose queries are merged, as far as they are read by name."""

    def _query(self, stmt: SelectStmt) -> BoundQuery:
        """A subquery with a window. It is bound once, because binding changes its syntax tree."""
        if id(stmt) not in self.bound:
            self.bound[id(stmt)] = self.bind_query(stmt)
        return self.bound[id(stmt)]

    def bind(self, stmt: SelectStmt) -> BoundRelation:
        """FROM with its joins, and with what makes several rows of one, also in SELECT."""
        base = self._base(stmt)
        if stmt.joins and base.relation.query is not None:
            found = self._with_groups(stmt, base, base.relation.query)
            if found is not None:
                return found
        tables = tables_of_streams(stmt, self.catalog)
        moved = [join for joins in tables.values() for join in joins]
        base = self._with_tables(stmt, base, tables.get(0, ()))
        for place, join in enumerate(stmt.joins, 1):
            if isinstance(join.this, (exp.Unnest, exp.Lateral)):
                base = self._generated(stmt.source, read_join(stmt.source, join), base)
            elif all(join is not each for each in moved):
                base = self._joined(stmt, join, base, tables.get(place, ()))
        if moved:
            base = in_order_of_from(stmt, self.catalog, base)
        for lateral in stmt.laterals:
            base = self._generated(stmt.source, read_view(stmt.source, lateral), base)
        selected = read_selected(stmt.source, stmt.projections)
        return base if selected is None else self._generated(stmt.source, selected, base, selected=True)

    def _with_tables(self, stmt: SelectStmt, base: BoundRelation, joins: Sequence[exp.Join]) -> BoundRelation:
        for join in joins:
            base = self._joined(stmt, join, base)
        return base

    def _with_groups(self, stmt: SelectStmt, base: BoundRelation, results: BoundQuery) -> BoundRelation | None:
        """Results joined with groups of the same window; None for another join."""
        join = stmt.joins[0]
        query = stmt.queries.get(join.this.name.lower()) if len(stmt.joins) == 1 else None
        if isinstance(query, SelectStmt) and (query.window is not None or self._compares_rows(query)):
            alias = _alias(join.this)
            found = join_with_groups(
                stmt.source, join, results, self._query(query), alias=alias, scope=base.scope
            )  # fmt: skip
            if found is not None:
                joined, scope, on = found
                relation = _results(joined, base.relation.alias)
                return BoundRelation(relation, scope, dict(scope.types()), scope.sources, (*base.where, on))
        return None

    def _base(self, stmt: SelectStmt) -> BoundRelation:
        query, alias = stmt.queries.get(stmt.from_.name.lower()), _alias(stmt.from_)
        if query is None:
            stream = bind_stream(stmt.source, stmt.from_, self.catalog)
            return _leaf(stmt.source, Relation((stream,), stream.columns, alias=stream.alias))
        if isinstance(query, UnionStmt):
            return _leaf(stmt.source, bind_union(query, alias, self._branch))
        if query.window is None and not self._compares_rows(query):
            if stmt.window is not None and self._joins_streams(query):
                return _leaf(stmt.source, _results(self._query(query), alias))
            return _renamed(stmt.source, alias, self.merged(query))
        return _leaf(stmt.source, _results(self._query(query), alias))

    def _branch(self, stmt: SelectStmt) -> MergedQuery:
        """A branch of a UNION ALL."""
        if stmt.window is None and not self._compares_rows(stmt):
            return self.merged(stmt)
        query = self._query(stmt)
        columns = [(each.name, Expr(quoted(each.name), each.expr.type, (each.name,))) for each in query.outputs]
        return MergedQuery(stmt, _results(query, ""), columns, {}, {}, leaves=(), where=(), watermark=None)

    def _joins_streams(self, stmt: SelectStmt) -> bool:
        """Whether a query without a window joins streams: its results are a stream with times of its own."""
        names = [join.this.name for join in stmt.joins if isinstance(join.this, exp.Table)]
        tables = [name for name in names if lookup(name, self.catalog.tables) is not None]
        streams = [name for name in names if lookup(name, self.catalog.streams) is not None and name not in tables]
        inner = stmt.queries.get(stmt.from_.name.lower())
        below = isinstance(inner, SelectStmt) and inner.window is None and self._joins_streams(inner)
        return bool(streams) or below

    def _compares_rows(self, query: SelectStmt) -> bool:
        """Whether a subquery without a window needs all rows of the window that it reads."""
        return query.first_over() is not None or query.distinct is not None or has_groups(query)

    def merged(self, stmt: SelectStmt) -> MergedQuery:
        """A subquery without window and aggregates."""
        self.owners[stmt.owner] = None
        stmt = with_comma_joins(with_semi_joins(stmt, self.catalog), self.catalog)
        refuse_unknown_functions(stmt.source, stmt.trees(), self.catalog.has_function)
        bound = self.bind(stmt)
        rows = RowExpressions(stmt.source, bound.scope, bound.types)
        where = rows.condition(stmt.where, "WHERE") if stmt.where is not None else None
        projections = ProjectionBinder(stmt.source, ResultNames(stmt.source, rows, None)).bind(stmt.projections)
        check_structure(stmt, "plain", first_aggregate(stmt.source, projections), bound.relation.query)
        for each in projections:
            refuse_modifiers(stmt.source, each.node)
        columns = [(each.name, rows.finish(each.node, span=each.span)) for each in projections]
        return MergedQuery(
            stmt,
            bound.relation,
            columns=columns,
            trees={each.name.lower(): each.node for each in projections},
            types=bound.types,
            leaves=bound.leaves,
            where=(*bound.where, *([where] if where else [])),
            watermark=stmt.watermark or bound.watermark,
        )

    def _generated(
        self, source: SourceText, syntax: GeneratorSyntax, base: BoundRelation, *, selected: bool = False
    ) -> BoundRelation:
        """`selected`: it stands in SELECT, so nothing else can name its columns."""
        relation = base.relation
        _check_generated(source, syntax, relation)
        taken = [known.alias.lower() for known in (*base.scope.sources, *base.leaves)]
        if syntax.alias and syntax.alias.lower() in taken:
            message = f"`{syntax.alias}` is the name of two sources"
            raise source.error("DUPLICATE_ALIAS", message, "give it another one", at=syntax.node)
        names = {column.name.lower() for column in relation.columns}
        binder = GeneratorBinder(source, RowExpressions(source, base.scope, base.types), base.where)
        generator, side = binder.bind(syntax, None if any(known.open for known in base.leaves) else names)
        if selected:
            own = tuple((side.spelled[low], column) for low, column in side.names.items())
            side = replace(side, names={}, selected=own)
        base.types.update({column.name: column.type or None for column in generator.columns})
        joined = replace(relation, joins=(*relation.joins, generator), columns=(*relation.columns, *generator.columns))
        return replace(base, relation=joined, scope=Scope(source, (*base.scope.sources, side)))

    def _other_stream(self, stmt: SelectStmt, join: exp.Join) -> BoundRelation | None:
        """The right side of a join of streams: a stream, or a subquery over one. None for a static table."""
        name = join.this.name
        query = stmt.queries.get(name.lower())
        if query is None:
            if lookup(name, self.catalog.tables) is not None or lookup(name, self.catalog.streams) is None:
                return None
            stream = bind_stream(stmt.source, join.this, self.catalog)
            return _leaf(stmt.source, Relation((stream,), stream.columns, alias=stream.alias))
        if reads_table(query, self.catalog):
            return None
        if isinstance(query, UnionStmt):
            return _leaf(stmt.source, bind_union(query, _alias(join.this), self._branch))
        if query.window is not None or self._compares_rows(query):
            return _leaf(stmt.source, _results(self._query(query), _alias(join.this)))
        return _renamed(stmt.source, _alias(join.this), self.merged(query))

    def _joined(
        self, stmt: SelectStmt, join: exp.Join, base: BoundRelation, tables: Sequence[exp.Join] = ()
    ) -> BoundRelation:
        """`tables`: joins with static tables that belong to the stream of this join."""
        source, scope, relation = stmt.source, base.scope, base.relation
        other = self._other_stream(stmt, join)
        if other is not None:
            other = self._with_tables(stmt, other, tables)
            sides = [joined_as_results(stmt, each) for each in (base, other)]
            overlap = windows_overlap(stmt)
            once = (overlap and sides[0] is not base, overlap and sides[1] is not other)
            return bind_stream_join(source, join, sides[0], sides[1], once=once)
        taken = [known.alias for known in (*scope.sources, *base.leaves)]
        query = stmt.queries.get(join.this.name.lower())
        if query is not None and join.args.get("using"):
            raise source.error("UNSUPPORTED_JOIN", "USING is not supported for a subquery", "write ON", at=join)
        table = _bind_table(source, join, self.catalog, taken, query)
        if relation.query is not None or (relation.joins_results and relation.stream_join is None):
            raise source.error("UNSUPPORTED_JOIN", RESULTS_JOINED, JOIN_HINT, at=join)
        if relation.stream_join is not None:
            message = "the static table is compared with several streams, or with one that joined rows may lack"
            hint = "compare it with one stream, or join it to that stream: JOIN (SELECT … FROM b JOIN t ON …) AS b ON …"
            raise source.error("UNSUPPORTED_JOIN", message, hint, at=join)
        using = _using(source, join, scope.sources, table)
        names = {column.name.lower() for column in relation.columns}
        side = _table_source(table, using, names, opened=any(known.open for known in base.leaves))
        named = side if query is None else self._table_query(source, join, query, side, base)
        bound = _bind_join(source, join, table, using, Scope(source, (*scope.sources, named)), base=base)
        if str(join.args.get("kind") or "") in ("SEMI", "ANTI"):
            return replace(base, relation=replace(relation, joins=(*relation.joins, bound)))
        renamed = [(side.names[low].name, side.alias, name) for low, name in side.spelled.items()
                   if low in side.names and side.names[low].name != name]  # fmt: skip
        base.types.update({column.name: column.type for column in side.names.values()})
        joined = replace(
            relation,
            joins=(*relation.joins, bound),
            columns=(*relation.columns, *side.names.values()),
            renamed=(*relation.renamed, *renamed),
        )
        sources = Scope(source, (*scope.sources, named))
        return replace(base, relation=joined, scope=sources, leaves=(*base.leaves, side))

    def _table_query(
        self, source: SourceText, join: exp.Join, query: Statement, side: Source, base: BoundRelation
    ) -> Source:
        """The columns of a subquery over a table. Its WHERE becomes a part of ON, which also holds for outer joins."""
        assert isinstance(query, SelectStmt)
        refuse_unknown_functions(query.source, query.trees(), self.catalog.has_function)
        found = bind_table_query(query, side, {**base.types, **{each.name: each.type for each in side.names.values()}})
        if found.where is not None:
            conditions = [each for each in (join.args.get("on"), found.where) if each is not None]
            join.set("on", exp.and_(*conditions, copy=False))
        return found.side


def _check_generated(source: SourceText, syntax: GeneratorSyntax, relation: Relation) -> None:
    """Only rows of streams can become several rows: not results, and not joined rows."""
    of_results, joined = relation.query is not None or relation.joins_results, relation.stream_join is not None
    if not of_results and not joined:
        return
    what = "a join of streams" if joined else "results of a window"
    if syntax.names == (SET,):
        hint = "write a query for each set, with UNION ALL between them"
        if not joined:
            hint = f"group by the sets inside the subquery, or {hint}"
        raise source.error("GROUPING_SETS", f"grouping sets over {what} are not supported", hint, at=syntax.node)
    hint = "let another transform write the rows that explode makes to a sink, and join that stream"
    if not joined:
        hint = "make several rows of one inside the subquery"
    message = f"several rows of one over {what} are not supported"
    raise source.error("UNSUPPORTED_GENERATOR", message, hint, at=syntax.node)


def _alias(node: exp.Expr) -> str:
    """What the query calls a subquery: its alias, or the name that WITH gave it."""
    alias = node.args.get("alias")
    name = node.name
    return alias.name if alias is not None else "" if name.startswith(PLACEHOLDER) else name


def _leaf(source: SourceText, relation: Relation) -> BoundRelation:
    side = _base_source(relation)
    scope = Scope(source, (side,))
    return BoundRelation(relation, scope, dict(scope.types()), (side,))


def _renamed(source: SourceText, alias: str, query: MergedQuery) -> BoundRelation:
    """What a merged subquery reads, under the names that the subquery gives to it."""
    names = {name.lower(): Column(name, expr.type or "") for name, expr in query.columns}
    spelled = {low: column.name for low, column in names.items()}
    scope = Scope(source, (Source(alias, names, spelled=spelled, trees=query.trees),))
    return BoundRelation(query.relation, scope, query.types, query.leaves, query.where, query.watermark)


def _results(query: BoundQuery, alias: str) -> Relation:
    columns = tuple(Column(output.name, output.expr.type or "") for output in query.outputs)
    return Relation(query.relation.streams, columns, alias=alias, query=query)


def bind_stream(source: SourceText, node: exp.Expr, catalog: Catalog) -> StreamRef:
    """A stream named in FROM."""
    name, alias = _table_name(node)
    found = lookup(name.name, catalog.streams)
    if found is None and lookup(name.name, catalog.tables) is not None:
        hint = "start FROM with a stream and join the table to it"
        raise source.error("TABLE_ALONE", f"`{name.name}` is a static table, not a stream", hint, at=name)
    if found is None:
        hint = f"streams are: {nearest(name.name, catalog.streams)}"
        if catalog.queries:
            hint += f"; transforms are: {nearest(name.name, catalog.queries)}"
        raise source.error("UNKNOWN_STREAM", f"there is no stream `{name.name}`", hint, at=name)
    schema = catalog.streams[found]
    return StreamRef(found, alias or found, schema or (), open=schema is None)


def _table_name(node: exp.Expr) -> tuple[exp.Expr, str | None]:
    alias = node.args.get("alias")
    return node.this, alias.name if alias is not None else None


def _base_source(base: Relation) -> Source:
    names = {column.name.lower(): column for column in base.columns}
    opened = bool(base.streams) and not base.branches and base.streams[0].open
    return Source(base.alias, names, opened, spelled={low: column.name for low, column in names.items()})


def _bind_table(
    source: SourceText, join: exp.Join, catalog: Catalog, taken: Sequence[str], query: Statement | None = None
) -> StreamRef:
    """The static table of a join; `query` is the subquery that reads it."""
    name, alias = _table_name(join.this)
    if isinstance(query, SelectStmt):
        name, alias = query.from_.this, _alias(join.this) or query.from_.name
    found = lookup(name.name, catalog.tables)
    if found is None:
        hint = f"tables are: {nearest(name.name, [*catalog.tables, *catalog.streams])}"
        raise source.error("UNKNOWN_TABLE", f"there is no table or stream `{name.name}`", hint, at=name)
    if (alias or found).lower() in [known.lower() for known in taken]:
        message = f"`{alias or found}` is the name of two sources"
        raise source.error("DUPLICATE_ALIAS", message, f"give it an alias: JOIN {found} AS t", at=join.this)
    schema = catalog.tables[found]
    return StreamRef(found, alias or found, schema or (), open=schema is None)


def _using(source: SourceText, join: exp.Join, sources: Sequence[Source], table: StreamRef) -> tuple[str, ...]:
    names = []
    for node in join.args.get("using") or ():
        left = next((known for known in sources if known.find(node.name)), None)
        columns = {column.name.lower() for column in table.columns}
        if left is None or (not table.open and node.name.lower() not in columns):
            lacking = table.alias if left is not None else sources[0].alias
            valid = columns if left is not None else [column.name for column in sources[0].names.values()]
            message = f"`{lacking}` has no column `{node.name}`"
            raise source.error("UNKNOWN_COLUMN", message, f"columns are: {nearest(node.name, valid)}", at=node)
        names.append(left.spelled.get(node.name.lower(), node.name))
    return tuple(names)


def _table_source(table: StreamRef, using: Sequence[str], taken: set[str], *, opened: bool) -> Source:
    """The table's columns under names that nothing before it has. Where names are unknown all of them are prefixed."""
    names: dict[str, Column] = {}
    shared = {name.lower() for name in using}
    for column in table.columns:
        low = column.name.lower()
        if low in shared:
            continue
        name = f"{table.alias}__{column.name}" if low in taken or opened else column.name
        names[low] = Column(name, column.type)
    spelled = {column.name.lower(): column.name for column in table.columns if column.name.lower() not in shared}
    return Source(table.alias, names, open=table.open, prefix=f"{table.alias}__", spelled=spelled)


def _bind_join(
    source: SourceText,
    join: exp.Join,
    table: StreamRef,
    using: tuple[str, ...],
    scope: Scope,
    *,
    base: BoundRelation,
) -> StaticJoin:
    side, kind = str(join.args.get("side") or ""), str(join.args.get("kind") or "")
    if side in ("RIGHT", "FULL"):
        hint = "the table would emit additional rows; use LEFT JOIN or JOIN"
        raise source.error("UNSUPPORTED_JOIN", f"{side} JOIN to a static table is not supported", hint, at=join)
    if kind not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI") or side not in ("", "LEFT"):
        raise source.error("UNSUPPORTED_JOIN", f"{side} {kind} JOIN is not supported", "write JOIN … ON …", at=join)
    on = join.args.get("on")
    if kind != "CROSS" and on is None and not using:
        raise source.error("JOIN_WITHOUT_ON", "the join has no condition", f"write JOIN {table.name} ON …", at=join)
    words = " ".join(word for word in (side, kind if kind not in ("INNER", "OUTER") else "", "JOIN") if word)
    alias = f" AS {_identifier(table.alias)}" if table.alias != table.name else ""
    text = f"{words} {_identifier(table.name)}{alias}"
    if using:
        text += f" USING ({', '.join(_identifier(name) for name in using)})"
    elif on is not None:
        place, condition = source.span(on), _on_text(source, on, scope, base)
        if kind in ("SEMI", "ANTI"):
            _check_equalities(source, place, condition, table.alias)
        text += f" ON {condition}"
    return StaticJoin(table.name, table.alias, columns=table.columns, text=text, using_columns=using)


def _check_equalities(source: SourceText, place: Span | None, condition: str, table: str) -> None:
    """A semi or anti join finds rows by equalities, among the rows of the table that meet conditions on it alone."""
    parts = conjuncts(condition, table)
    if all(part.left is None for part in parts) or any(part.left is None and not part.of_table for part in parts):
        message = f"`{source.quote(place)}` does not compare row and table by equality"
        hint = "compare by equalities joined by AND: t.id = k AND t.kind = c; conditions on the table alone may follow"
        raise source.error("UNSUPPORTED_JOIN", message, hint, at=place)


def _on_text(source: SourceText, on: exp.Expr, scope: Scope, base: BoundRelation) -> str:
    """The condition with every column qualified: the table's own names by its alias, all others by the stream's."""
    rows = RowExpressions(source, scope, {**base.types, **scope.types()})
    table = scope.sources[-1].alias
    rows.condition(on.copy(), "ON")

    def qualify(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or not part.meta.get("bound"):
            return part
        of_table = part.meta["side"] == table
        column, alias = (
            (name_node(part.meta["own"]), table) if of_table else (name_node(part.name), base.relation.alias)
        )
        if alias:
            column.set("table", exp.Identifier(this=alias, quoted=needs_quotes(alias)))
        return column

    return render(rows.resolve(on, "ON").transform(qualify, copy=False))


def _identifier(name: str) -> str:
    return render(exp.Identifier(this=name, quoted=needs_quotes(name)))
