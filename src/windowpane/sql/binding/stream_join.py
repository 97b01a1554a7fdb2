"""FROM a JOIN b of two streams: the sides, the columns in which partners agree, and what else ON asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from windowpane.core import columns as c
from windowpane.errors import SqlError, nearest
from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.inference import common
from windowpane.sql.binding.merging import check_results_read
from windowpane.sql.binding.scope import Scope, Source
from windowpane.sql.query import BoundQuery, Column, Expr, JoinKind, Relation, StreamJoin, StreamRef, UnionBranch
from windowpane.sql.scalar import all_of, substitute_columns
from windowpane.sql.syntax.source import Place, SourceText
from windowpane.sql.types import quoted

if TYPE_CHECKING:
    from windowpane.sql.binding.relation import BoundRelation

_KINDS: dict[tuple[str, str], JoinKind] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi",
    ("LEFT", "SEMI"): "semi",
    ("", "ANTI"): "anti",
    ("LEFT", "ANTI"): "anti",
}
_FORMS = "JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, LEFT SEMI JOIN, LEFT ANTI JOIN"
_WORDS: dict[JoinKind, str] = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}


@dataclass(frozen=True)
class _Side:
    """A stream, or a subquery over one, with the static tables that are joined to it."""

    stream: StreamRef
    sources: tuple[Source, ...]
    projection: dict[str, Expr]
    """Its columns by their names in `sources`, over those of the stream and its tables."""
    where: tuple[Expr, ...]
    joined: Relation | None = None
    """The stream with its tables, if there are any."""
    query: BoundQuery | None = None
    """The query of which these are the results."""

    @property
    def alias(self) -> str:
        return self.sources[0].alias

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for source in self.sources for column in source.names.values())

    def named(self, taken: set[str], shared: set[str]) -> tuple[tuple[Source, ...], dict[str, Expr]]:
        """Its columns under names that are not taken, without those of USING; and what each of them is."""
        found, own = [], dict[str, Expr]()
        for source in self.sources:
            names = dict[str, Column]()
            for low, column in source.names.items():
                if low not in shared:
                    name = f"{source.alias}__{column.name}" if column.name.lower() in taken else column.name
                    names[low] = replace(column, name=name)
                    own[name] = self.projection[column.name]
            found.append(Source(source.alias, names, spelled={low: source.spelled[low] for low in names}))
        return tuple(found), own

    def column(self, name: str) -> Column | None:
        return next((source.names[name.lower()] for source in self.sources if name.lower() in source.names), None)

    @property
    def streams(self) -> tuple[StreamRef, ...]:
        return self.query.relation.streams if self.query is not None else (self.stream,)

    def text(self) -> str:
        """For the canonical text of the query."""
        name = quoted(self.stream.name) if self.query is None else f"({self.query.canonical})"
        plain = (
            not self.where
            and self.joined is None
            and all(expr.text == quoted(own) for own, expr in self.projection.items())
        )
        if not plain:
            items = ", ".join(f"{expr.text} AS {quoted(own)}" for own, expr in self.projection.items())
            condition = all_of(self.where)
            tables = "".join(f" {each.text}" for each in self.joined.joins) if self.joined else ""
            name += f" AS {quoted(self.joined.alias)}{tables}" if self.joined else ""
            name = f"(SELECT {items} FROM {name}{f' WHERE {condition.text}' if condition else ''})"
        bare = plain and self.query is None and self.alias == self.stream.name
        return name if bare else f"{name} AS {quoted(self.alias)}"


def bind_stream_join(
    source: SourceText, join: exp.Join, left: BoundRelation, right: BoundRelation, *, once: tuple[bool, bool]
) -> BoundRelation:
    """The relation of both streams. `once`: as of `StreamJoin`."""
    return _Binder(source, join, _side(source, left, join), _side(source, right, join), once).bind(left, right)


def _side(source: SourceText, bound: BoundRelation, join: exp.Join) -> _Side:
    relation, sources = bound.relation, bound.scope.sources
    if relation.branches or relation.generators:
        message = "a UNION ALL can be joined with a stream only within a window"
        hint = "add a window: … JOIN … ON … WINDOW TUMBLING (SIZE 10 SECONDS)"
        if relation.generators:
            message = "a query with explode cannot be joined with a stream"
            hint = "let another transform write the rows that explode makes to a sink, and join that stream"
        elif relation.tables:
            message = "a UNION ALL with static tables cannot be joined with a stream"
            hint = "join the tables to the other stream"
        raise source.error("UNSUPPORTED_JOIN", message, hint, at=join)
    if relation.query is not None:
        check_results_read(source, relation.query)
    for named in (*sources, *bound.leaves):
        if named.open or any(not column.type for column in named.names.values()):
            message = f"the columns of `{named.alias}` are unknown, so it cannot be joined with a stream"
            raise source.error("NEEDS_SCHEMA", message, "declare the schema of both streams", at=join)
    rows = RowExpressions(source, bound.scope, bound.types)
    projection = {
        column.name: rows.finish(named.trees[low].copy())
        if named.trees is not None
        else Expr(quoted(column.name), column.type, (column.name,))
        for named in sources
        for low, column in named.names.items()
    }
    return _Side(
        relation.streams[0],
        sources,
        projection,
        bound.where,
        joined=relation if relation.joins else None,
        query=relation.query,
    )


@dataclass(frozen=True)
class _Binder:
    source: SourceText
    join: exp.Join
    left: _Side
    right: _Side
    once: tuple[bool, bool]

    def bind(self, left: BoundRelation, right: BoundRelation) -> BoundRelation:
        taken_by = {each.alias.lower() for each in self.left.sources}
        for each in self.right.sources:
            if each.alias.lower() in taken_by:
                hint = f"give it an alias: JOIN {self.right.stream.name} AS t"
                raise self._error("DUPLICATE_ALIAS", f"`{each.alias}` is the name of two sources", hint)
        kind, using = self._kind(), self._using()
        shared = {name.lower() for name in using}
        first, own_left = self.left.named(set(), set())
        taken = {column.name.lower() for each in first for column in each.names.values()}
        second, own_right = self.right.named(taken, shared)
        both = Scope(self.source, (*first, *second))
        owns = (own_left, own_right | {name: self.right.projection[_spelled(self.right, name)] for name in using})
        equalities, conditions = self._conditions(both, set(own_left), using)
        keys = [self._key_type(*each) for each in equalities]
        stream_join = StreamJoin(
            kind,
            keys=tuple(f"_j{number}" for number in range(len(keys))),
            equalities=tuple(equalities),
            labels=tuple(self._label(left, right) for left, right in equalities),
            conditions=tuple(conditions),
            left=tuple(name for name in own_left if name.lower() not in shared),
            right=tuple(own_right),
            text=self._text(kind, using, equalities, conditions),
            once=self.once,
            span=self.source.span(self.join),
        )
        branches = self._branches(stream_join, keys, both, owns)
        internal = [Column(name, keyed, hidden=True) for name, keyed in zip(stream_join.keys, keys, strict=True)]
        columns = (*both.columns, *internal, Column(c.RIGHT, "BOOLEAN", hidden=True))
        streams = {stream.name: stream for stream in (*self.left.streams, *self.right.streams)}
        relation = Relation(tuple(streams.values()), columns, branches=branches, stream_join=stream_join)
        visible = both if kind not in ("semi", "anti") else Scope(self.source, first)
        types: dict[str, str | None] = {column.name: column.type for column in columns}
        return replace(
            left, relation=relation, scope=visible, types=types, leaves=both.sources, where=(),
            watermark=left.watermark or right.watermark,
        )  # fmt: skip

    def _label(self, left: Expr, right: Expr) -> str:
        if left.span is None:
            return f"{self.left.alias}.{left.text} = {self.right.alias}.{right.text}"
        return f"{self.source.quote(left.span)} = {self.source.quote(right.span)}"

    def _kind(self) -> JoinKind:
        side, kind = str(self.join.args.get("side") or ""), str(self.join.args.get("kind") or "")
        found = _KINDS.get((side, kind))
        if found is None:
            words = " ".join(word for word in (side, kind, "JOIN") if word)
            message = f"{words} of streams is not supported"
            raise self._error("UNSUPPORTED_JOIN", message, f"joins of streams are: {_FORMS}, with ON a.k = b.k")
        return found

    def _using(self) -> tuple[str, ...]:
        names = []
        for node in self.join.args.get("using") or ():
            for side in (self.left, self.right):
                if side.column(node.name) is None:
                    valid = nearest(node.name, [column.name for column in side.columns])
                    message = f"`{side.alias}` has no column `{node.name}`"
                    raise self.source.error("UNKNOWN_COLUMN", message, f"columns are: {valid}", at=node)
            found = self.left.column(node.name)
            assert found is not None
            names.append(found.name)
        return tuple(names)

    def _conditions(
        self, both: Scope, lefts: set[str], using: Sequence[str]
    ) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
        """The equalities between both sides, and all other conditions."""
        equalities, others = [self._shared(name) for name in using], []
        rows = RowExpressions(self.source, both, dict(both.types()))
        for part in _parts(self.join.args.get("on")):
            pair = self._equality(rows, part, lefts)
            if pair is not None:
                equalities.append(pair)
            else:
                others.append(rows.condition(part.copy(), "ON"))
        if not equalities:
            message = f"the join of `{self.left.alias}` and `{self.right.alias}` compares no columns of both by `=`"
            hint = f"rows find their partners by equal keys: write JOIN {self.right.alias} ON a.k = b.k [AND …]"
            raise self._error("JOIN_WITHOUT_EQUALITY", message, hint)
        return equalities, others

    def _shared(self, name: str) -> tuple[Expr, Expr]:
        first, second = self.left.column(name), self.right.column(name)
        assert first is not None
        assert second is not None
        if first.type != second.type:
            message = f"`{name}` is of type {first.type} in `{self.left.alias}`, of type {second.type} in the other"
            hint = f"USING needs one type: write ON {self.left.alias}.{name} = {self.right.alias}.{name}"
            raise self._error("JOIN_KEY_TYPES", message, hint)
        return Expr(quoted(first.name), first.type, (first.name,)), Expr(quoted(first.name), second.type, (first.name,))

    def _equality(self, rows: RowExpressions, part: exp.Expr, lefts: set[str]) -> tuple[Expr, Expr] | None:
        if not isinstance(part, exp.EQ):
            return None
        sides = [rows.bind(side.copy(), "ON") for side in (part.left, part.right)]
        owners = [{0 if name in lefts else 1 for name in side.columns} for side in sides]
        if owners == [{0}, {1}]:
            return sides[0], sides[1]
        return (sides[1], sides[0]) if owners == [{1}, {0}] else None

    def _key_type(self, left: Expr, right: Expr) -> str:
        found = common([left.type, right.type])
        if found is None:
            texts = [self.source.quote(each.span) or each.text for each in (left, right)]
            message = f"`{texts[0]}` is of type {left.type}, `{texts[1]}` of type {right.type}"
            hint = f"partners have equal keys of one type: write CAST({texts[1]} AS {left.type or 'STRING'})"
            raise self._error("JOIN_KEY_TYPES", message, hint, at=right.span)
        return found

    def _branches(
        self, join: StreamJoin, keys: Sequence[str], both: Scope, owns: tuple[dict[str, Expr], dict[str, Expr]]
    ) -> tuple[UnionBranch, UnionBranch]:
        """Each side with the columns of both, those of the other one as NULL. `owns`: what the columns of each are."""
        found = []
        for number, side in enumerate((self.left, self.right)):
            own = owns[number]
            projection = [
                (column.name, _typed(own[column.name], column.type) if column.name in own else _null(column.type))
                for column in both.columns
            ]
            compared = [substitute_columns(pair[number], own) for pair in join.equalities]
            projection += [
                (name, _typed(expr, kind)) for name, expr, kind in zip(join.keys, compared, keys, strict=True)
            ]
            projection.append((c.RIGHT, Expr("TRUE" if number else "FALSE", "BOOLEAN")))
            found.append(UnionBranch(side.stream, tuple(projection), all_of(side.where), side.joined, side.query))
        return found[0], found[1]

    def _text(
        self, kind: JoinKind, using: Sequence[str], equalities: Sequence[tuple[Expr, Expr]], others: Sequence[Expr]
    ) -> str:
        pairs = [f"{left.text} = {right.text}" for left, right in equalities[len(using) :]]
        on = " AND ".join([*pairs, *(f"({each.text})" for each in others)])
        shared = f" USING ({', '.join(map(quoted, using))})" if using else ""
        # A subquery with the same window means something else: its results are in each window that overlaps it.
        within = " /* within one window */" if any(self.once) else ""
        return f"{self.left.text()} {_WORDS[kind]} {self.right.text()}{shared}{f' ON {on}' if on else ''}{within}"

    def _error(self, code: str, message: str, hint: str, at: Place = None) -> SqlError:
        return self.source.error(code, message, hint, at=at or self.join)


def _spelled(side: _Side, name: str) -> str:
    column = side.column(name)
    assert column is not None
    return column.name


def _parts(on: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND joins. BETWEEN is two of them."""
    if on is None:
        return []
    node = on.unnest()
    return [each.unnest() for each in node.flatten()] if isinstance(node, exp.And) else [node]


def _typed(expr: Expr, kind: str) -> Expr:
    return expr if expr.type == kind else replace(expr, text=f"CAST({expr.text} AS {kind})", type=kind)


def _null(kind: str) -> Expr:
    return Expr(f"CAST(NULL AS {kind})", kind)
