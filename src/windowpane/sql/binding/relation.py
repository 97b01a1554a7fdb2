"""FROM: streams, static joins and unions of streams, and the names they give to the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from windowpane.errors import nearest
from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.scope import Scope, Source, name_node, needs_quotes
from windowpane.sql.binding.union import bind_union
from windowpane.sql.query import Column, Relation, StaticJoin, StreamRef
from windowpane.sql.schema import Catalog, Schema
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.source import SourceText


@dataclass(frozen=True)
class BoundRelation:
    """FROM, bound: the relation for the planner and the scope for the rest of the query."""

    relation: Relation
    scope: Scope
    visible: tuple[tuple[str, tuple[tuple[str, str], ...] | None], ...]
    """For `*`: per source its alias and (output name, query name) of its columns, None where they are not known."""


def bind_relation(source: SourceText, from_: exp.Expr, joins: Sequence[exp.Join], catalog: Catalog) -> BoundRelation:
    """Bind FROM with its joins."""
    base = _bind_base(source, from_, catalog)
    names = {column.name.lower() for column in base.columns}
    sources = [_base_source(base)]
    visible: list[tuple[str, tuple[tuple[str, str], ...] | None]] = [_visible(sources[0])]
    bound: list[StaticJoin] = []
    renamed: list[tuple[str, str, str]] = []
    for join in joins:
        table = _bind_table(source, join, catalog, [known.alias for known in sources])
        using = _using(source, join, sources, table)
        side = _table_source(table, using, names, opened=any(known.open for known in sources))
        bound.append(_bind_join(source, join, table, using, Scope(source, (*sources, side))))
        if str(join.args.get("kind") or "") not in ("SEMI", "ANTI"):
            sources.append(side)
            visible.append(_visible(side))
            names |= {column.name.lower() for column in side.names.values()}
            own = side.spelled.items()
            renamed += [(side.names[low].name, side.alias, name) for low, name in own
                        if low in side.names and side.names[low].name != name]  # fmt: skip
    scope = Scope(source, tuple(sources))
    relation = Relation(
        base.streams,
        scope.columns,
        joins=tuple(bound),
        branches=base.branches,
        alias=base.alias,
        renamed=tuple(renamed),
    )
    return BoundRelation(relation, scope, tuple(visible))


def _bind_base(source: SourceText, from_: exp.Expr, catalog: Catalog) -> Relation:
    if isinstance(from_, exp.Subquery):
        return bind_union(source, from_, lambda node: bind_stream(source, node, catalog))
    stream = bind_stream(source, from_, catalog)
    return Relation((stream,), stream.columns, alias=stream.alias)


def bind_stream(source: SourceText, node: exp.Expr, catalog: Catalog) -> StreamRef:
    """A stream named in FROM."""
    name, alias = _table_name(node)
    found = lookup(name.name, catalog.streams)
    if found is None and lookup(name.name, catalog.tables) is not None:
        hint = "start FROM with a stream and join the table to it"
        raise source.error("TABLE_ALONE", f"`{name.name}` is a static table, not a stream", hint, at=name)
    if found is None:
        hint = f"streams are: {nearest(name.name, catalog.streams)}"
        raise source.error("UNKNOWN_STREAM", f"there is no stream `{name.name}`", hint, at=name)
    schema = catalog.streams[found]
    return StreamRef(found, alias or found, schema or (), open=schema is None)


def lookup(name: str, known: Mapping[str, Schema]) -> str | None:
    """The catalog's spelling of a name: as written, else the only one in any letter case."""
    if name in known:
        return name
    folded = [candidate for candidate in known if candidate.lower() == name.lower()]
    return folded[0] if len(folded) == 1 else None


def _table_name(node: exp.Expr) -> tuple[exp.Expr, str | None]:
    alias = node.args.get("alias")
    return node.this, alias.name if alias is not None else None


def _base_source(base: Relation) -> Source:
    names = {column.name.lower(): column for column in base.columns}
    opened = bool(base.streams) and not base.branches and base.streams[0].open
    return Source(base.alias, names, opened, spelled={low: column.name for low, column in names.items()})


def _visible(side: Source) -> tuple[str, tuple[tuple[str, str], ...] | None]:
    if side.open:
        return side.alias, None
    return side.alias, tuple(
        (side.spelled[low], column.name) for low, column in side.names.items() if not column.hidden
    )


def _bind_table(source: SourceText, join: exp.Join, catalog: Catalog, taken: Sequence[str]) -> StreamRef:
    name, alias = _table_name(join.this)
    found = lookup(name.name, catalog.tables)
    if found is None and lookup(name.name, catalog.streams) is not None:
        hint = "join a static table, or read both streams with UNION ALL"
        raise source.error("STREAM_JOIN", f"`{name.name}` is a stream: streams cannot be joined", hint, at=name)
    if found is None:
        hint = f"tables are: {nearest(name.name, catalog.tables)}"
        raise source.error("UNKNOWN_TABLE", f"there is no table `{name.name}`", hint, at=name)
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
    source: SourceText, join: exp.Join, table: StreamRef, using: tuple[str, ...], scope: Scope
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
        text += f" ON {_on_text(source, on, scope)}"
    return StaticJoin(table.name, table.alias, columns=table.columns, text=text, using_columns=using)


def _on_text(source: SourceText, on: exp.Expr, scope: Scope) -> str:
    """The condition with every column qualified: here, unlike in the query, both sides have their own names."""
    rows = RowExpressions(source, scope, dict(scope.types()))
    rows.condition(on.copy(), "ON")

    def qualify(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column):
            return part
        found = scope.resolve(part)
        column = name_node(found.own_name)
        if found.source.alias:
            column.set("table", exp.Identifier(this=found.source.alias, quoted=needs_quotes(found.source.alias)))
        node: exp.Expr = column
        for field in found.path:
            node = exp.Dot(this=node, expression=exp.Identifier(this=field.name, quoted=field.quoted))
        return node

    return render(on.transform(qualify, copy=False))


def _identifier(name: str) -> str:
    return render(exp.Identifier(this=name, quoted=needs_quotes(name)))
