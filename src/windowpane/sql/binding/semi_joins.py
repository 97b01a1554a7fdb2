"""Subqueries in WHERE: `IN (SELECT … FROM x)` and `EXISTS (SELECT … FROM x WHERE …)` as semi and anti joins.

`x` is a static table, or a stream or subquery: then the join is one of streams, within the window of the query.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from windowpane.errors import SqlError
from windowpane.sql.binding.expressions import function_name
from windowpane.sql.binding.table_queries import refuse_clauses
from windowpane.sql.schema import Catalog, lookup
from windowpane.sql.syntax.source import PLACEHOLDER, Place, SourceText
from windowpane.sql.syntax.statement import SelectStmt, Statement

IN_FORM = "k IN (SELECT id FROM users WHERE …) or EXISTS (SELECT 1 FROM users WHERE users.id = k)"


def with_semi_joins(stmt: SelectStmt, catalog: Catalog) -> SelectStmt:
    """The statement with a join for each subquery in WHERE.

    Before: SELECT … FROM bids WHERE price > 1 AND bidder IN (SELECT id FROM users WHERE vip)
    After:  SELECT … FROM bids LEFT SEMI JOIN users ON bids.bidder = users.id AND users.vip WHERE price > 1
    """
    if stmt.where is None or not any(map(_is_placeholder, stmt.where.find_all(exp.Column))):
        return stmt
    joins, conditions, queries = list[exp.Join](), list[exp.Expr](), dict[str, Statement]()
    for part in _parts(stmt.where):
        found = _read(stmt, part.unnest())
        if found is None:
            conditions.append(part)
        else:
            query = _apart(found.query, {*stmt.queries, *queries})
            joins.append(_Joining(stmt, catalog, replace(found, query=query)).join())
            queries |= query.queries
    where = exp.and_(*conditions, copy=False) if conditions else None
    return replace(stmt, joins=(*stmt.joins, *joins), where=where, queries={**stmt.queries, **queries})


def _parts(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that must all hold."""
    whole = condition.unnest()
    return list(whole.flatten()) if isinstance(whole, exp.And) else [whole]


@dataclass(frozen=True)
class _Condition:
    """A condition on a subquery, taken apart."""

    node: exp.Expr
    query: SelectStmt
    compared: tuple[exp.Expr, ...]
    """What is looked for in the columns of the subquery; empty for EXISTS."""
    is_in: bool
    negated: bool


def _read(stmt: SelectStmt, part: exp.Expr) -> _Condition | None:
    negated = isinstance(part, exp.Not)
    inner = part.this.unnest() if negated else part
    if isinstance(inner, exp.In) and len(inner.expressions) == 1 and _is_placeholder(inner.expressions[0]):
        left = inner.this.unnest()
        compared = tuple(left.expressions) if isinstance(left, exp.Tuple) else (left,)
        return _Condition(part, _query(stmt, inner.expressions[0], part), compared, is_in=True, negated=negated)
    if function_name(inner) == "exists" and len(inner.expressions) == 1 and _is_placeholder(inner.expressions[0]):
        return _Condition(part, _query(stmt, inner.expressions[0], part), (), is_in=False, negated=negated)
    return None


def _is_placeholder(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name.startswith(PLACEHOLDER)


def _query(stmt: SelectStmt, column: exp.Expr, whole: exp.Expr) -> SelectStmt:
    found = stmt.queries[column.name]
    if not isinstance(found, SelectStmt):
        raise _refusal(stmt.source, "a UNION ALL is not allowed here", whole)
    refuse_clauses(stmt.source, found, "a subquery of WHERE", f"write {IN_FORM}", at=whole)
    return found


def _apart(query: SelectStmt, taken: Collection[str]) -> SelectStmt:
    """The query with another placeholder for a subquery in its FROM: those of different queries have equal names."""
    name = unique = query.from_.name
    if not name.startswith(PLACEHOLDER):
        return query
    while unique in taken:
        unique += "_"
    table = query.from_.copy()
    table.set("this", exp.Identifier(this=unique))
    others = {own: each for own, each in query.queries.items() if not own.startswith(PLACEHOLDER)}
    return replace(query, from_=table, queries={**others, unique: query.queries[name]})


def _refusal(source: SourceText, message: str, at: Place) -> SqlError:
    return source.error("UNSUPPORTED_SUBQUERY", message, f"write {IN_FORM}", at=at)


@dataclass(frozen=True)
class _Joining:
    """Writes one condition as a join."""

    stmt: SelectStmt
    catalog: Catalog
    found: _Condition

    def join(self) -> exp.Join:
        found, source, table = self.found, self.stmt.source, self.found.query.from_
        known = self._known(table)
        if known is None:
            message = f"a subquery in WHERE must read a static table or a stream, and `{source.quote(table)}` is none"
            raise _refusal(source, message, table)
        if found.is_in and found.negated:
            message = "NOT IN (SELECT …) keeps no row as soon as the table has a NULL"
            hint = "write NOT EXISTS (SELECT 1 FROM t WHERE t.id = k), which leaves NULLs out of account"
            raise source.error("UNSUPPORTED_SUBQUERY", message, hint, at=found.node)
        alias = self._alias(table)
        equalities = [exp.EQ(this=own, expression=column) for own, column in self._pairs(known, alias)]
        where = found.query.where
        inside = [] if where is None else [self._inside(part, known, alias) for part in _parts(where)]
        conditions = [*equalities, *inside]
        if not conditions:
            message = "the subquery does not depend on the row"
            raise _refusal(source, message, found.node)
        this = exp.Table(this=table.this, alias=exp.TableAlias(this=exp.Identifier(this=alias)))
        kind = "ANTI" if found.negated else "SEMI"
        return exp.Join(this=this, side="LEFT", kind=kind, on=exp.and_(*conditions, copy=False))

    def _known(self, table: exp.Expr) -> frozenset[str] | None:
        """The columns of what the subquery reads, empty if they are not known here; None if nothing has its name."""
        if table.name.lower() in self.found.query.queries:
            return frozenset()
        for schemas in (self.catalog.tables, self.catalog.streams):
            name = lookup(table.name, schemas)
            if name is not None:
                return frozenset(column.name.lower() for column in schemas[name] or ())
        transforms = {name.lower() for name in self.catalog.queries}
        return frozenset() if table.name.lower() in transforms else None

    def _alias(self, table: exp.Expr) -> str:
        """The table's name in the subquery, or one that nothing else has."""
        given = table.args.get("alias")
        alias = given.name if given is not None else table.name
        others = (self.stmt.from_, *(join.this for join in self.stmt.joins))
        taken = {(each.alias or each.name).lower() for each in others}
        while alias.lower() in taken:
            alias += "_"
        return alias

    def _pairs(self, known: frozenset[str], alias: str) -> Sequence[tuple[exp.Expr, exp.Expr]]:
        """For IN, what is compared with what."""
        found = self.found
        if not found.is_in:
            return ()
        columns = [item.this if isinstance(item, exp.Alias) else item for item in found.query.projections]
        if len(columns) != len(found.compared) or any(column.is_star for column in columns):
            message = f"the subquery must select as many columns as are compared: {len(found.compared)}"
            raise _refusal(self.stmt.source, message, found.node)
        outside = [own.transform(self._of_stream, copy=False) for own in found.compared]
        inside = [self._inside(column, known, alias) for column in columns]
        return list(zip(outside, inside, strict=True))

    def _of_stream(self, node: exp.Expr) -> exp.Expr:
        """A column in front of IN is never the table's; where FROM has one source, it is that one's."""
        first = self.stmt.from_
        alias = first.alias or ("" if first.name.startswith(PLACEHOLDER) else first.name)
        if isinstance(node, exp.Column) and not node.table and alias and not self.stmt.joins:
            node.set("table", exp.Identifier(this=alias, quoted=True))
        return node

    def _inside(self, node: exp.Expr, known: frozenset[str], alias: str) -> exp.Expr:
        """An expression of the subquery. Its names are first of all those of what it reads."""
        table = self.found.query.from_
        own = {(table.alias or table.name).lower(), ""}

        def step(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and part.table.lower() in own:
                if part.table or not known or part.name.lower() in known:
                    part.set("table", exp.Identifier(this=alias, quoted=True))
                else:
                    self._of_stream(part)
            return part

        return node.transform(step, copy=False)
