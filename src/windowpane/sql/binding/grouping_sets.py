"""GROUPING SETS, ROLLUP and CUBE: a row becomes one row for each set, with NULL for the keys that are not in the set.

`GROUP BY ROLLUP (a)` is `LATERAL VIEW explode(array(0, 1)) AS set GROUP BY CASE WHEN set IN (0) THEN a END, set`. The
account shows the additional rows as `made`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from sqlglot import exp

from windowpane.errors import SqlError
from windowpane.sql.binding.aggregates import aggregate_name
from windowpane.sql.binding.group_keys import is_ordinal
from windowpane.sql.scalar import read_expression
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import SelectStmt

SET = "grouping_set"
"""The column with the number of the set."""
MAX_SETS = 64
_SEVERAL = (exp.Rollup, exp.Cube, exp.GroupingSets)
Nodes = tuple[exp.Expr, ...]


def with_grouping_sets(stmt: SelectStmt) -> SelectStmt:
    """The statement with plain keys only, over rows that exist once for each set."""
    if not any(isinstance(item, _SEVERAL) for item in stmt.group_by_exprs):
        return _without_grouping(stmt)
    return _Sets.of(stmt).expanded(stmt)


def _without_grouping(stmt: SelectStmt) -> SelectStmt:
    for tree in (*stmt.projections, stmt.having, stmt.qualify, *(key.expr for key in stmt.order_by)):
        for call in tree.find_all(exp.Anonymous) if tree is not None else ():
            if str(call.this).lower() in ("grouping", "grouping_id"):
                hint = "write GROUP BY ROLLUP (a, b), CUBE (a, b) or GROUPING SETS ((a), (b))"
                message = f"`{str(call.this).lower()}` needs grouping sets"
                raise stmt.source.error("GROUPING_SETS", message, hint, at=call)
    return stmt


@dataclass(frozen=True)
class _Sets:
    """`sets` of the keys that belong to each set, by their texts."""

    source: SourceText
    keys: dict[str, exp.Expr]
    sets: list[frozenset[str]]

    @classmethod
    def of(cls, stmt: SelectStmt) -> _Sets:
        keys: dict[str, exp.Expr] = {}
        choices = [list(_choices(stmt, item)) for item in stmt.group_by_exprs]
        found = []
        for chosen in product(*choices):
            nodes = [node for part in chosen for node in part]
            keys |= {_text(node): node for node in nodes if _text(node) not in keys}
            found.append(frozenset(map(_text, nodes)))
            if len(found) > MAX_SETS:
                hint = "list the sets that you need: GROUPING SETS ((a, b), (a), ())"
                at = next(item for item in stmt.group_by_exprs if isinstance(item, _SEVERAL))
                raise _error(stmt, f"there are more than {MAX_SETS} grouping sets", hint, at)
        return cls(stmt.source, keys, found)

    def expanded(self, stmt: SelectStmt) -> SelectStmt:
        numbers = ", ".join(str(number) for number in range(len(self.sets)))
        names = exp.TableAlias(this=exp.to_identifier("grouping"), columns=[exp.to_identifier(SET)])
        view = exp.Lateral(this=_made(f"explode(array({numbers}))"), view=True, alias=names)
        place = self.source.span(next(item for item in stmt.group_by_exprs if isinstance(item, _SEVERAL)))
        if place is not None:
            view.meta.update(start=place.start, end=place.end - 1)
        return replace(
            stmt,
            projections=tuple(map(self._selected, stmt.projections)),
            laterals=(*stmt.laterals, view),
            group_by_exprs=(*(self._masked(node) for node in self.keys.values()), exp.column(SET)),
            having=None if stmt.having is None else self._written(stmt.having),
            qualify=None if stmt.qualify is None else self._written(stmt.qualify),
            order_by=tuple(replace(key, expr=self._ordered(stmt, key.expr)) for key in stmt.order_by),
        )

    def _selected(self, item: exp.Expr) -> exp.Expr:
        if isinstance(item, exp.Alias):
            item.set("this", self._written(item.this))
            return item
        name = item.name if isinstance(item, exp.Column) else render(item.copy())
        changed = self._written(item)
        return changed if changed is item else exp.Alias(this=changed, alias=exp.to_identifier(name, quoted=True))

    def _ordered(self, stmt: SelectStmt, node: exp.Expr) -> exp.Expr:
        """An item of ORDER BY; numbers and aliases stay."""
        names = {item.alias_or_name.lower() for item in stmt.projections}
        named = is_ordinal(node) or (isinstance(node, exp.Column) and node.name.lower() in names)
        return node if named else self._written(node)

    def _written(self, node: exp.Expr) -> exp.Expr:
        """The expression over masked keys; arguments of aggregates stay as they are."""
        if aggregate_name(node):
            return node
        text = _text(node) if not isinstance(node, exp.Identifier) else ""
        if text in self.keys:
            return self._masked(node)
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in ("grouping", "grouping_id"):
            return self._grouping(node)
        for name, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(name, self._written(value))
            elif isinstance(value, list):
                node.set(name, [self._written(each) if isinstance(each, exp.Expr) else each for each in value])
        return node

    def _masked(self, node: exp.Expr) -> exp.Expr:
        """NULL in the sets that do not have the key."""
        having = [number for number, each in enumerate(self.sets) if _text(node) in each]
        if len(having) == len(self.sets):
            return node.copy()
        case = _made(f"CASE WHEN {_within(having)} THEN NULL END")
        case.args["ifs"][0].set("true", node.copy())
        return case

    def _grouping(self, call: exp.Anonymous) -> exp.Expr:
        """grouping(a): 1 in sets without a; grouping_id(a, b): the bits of all, the first one the highest."""
        name = str(call.this).lower()
        given = [_text(arg) for arg in call.expressions] or list(self.keys)
        strange = next((arg for arg in call.expressions if _text(arg) not in self.keys), None)
        if strange is not None or (name == "grouping" and len(call.expressions) != 1):
            hint = f"keys are: {', '.join(self.keys)}"
            raise self.source.error("GROUPING_SETS", f"{name} takes keys of the grouping sets", hint, at=call)
        values = [sum((text not in each) << bit for bit, text in enumerate(reversed(given))) for each in self.sets]
        whens = " ".join(f"WHEN {SET} = {number} THEN {value}" for number, value in enumerate(values))
        kind = "TINYINT" if name == "grouping" else "BIGINT"
        return _made(f"CAST(CASE {whens} END AS {kind})")


def _choices(stmt: SelectStmt, item: exp.Expr) -> Iterator[Nodes]:
    """The sets that an item of GROUP BY gives."""
    if isinstance(item, exp.GroupingSets):
        for each in item.expressions:
            yield from _choices(stmt, each) if isinstance(each, _SEVERAL) else [_members(stmt, each)]
        return
    if not isinstance(item, _SEVERAL):
        yield (_resolved(stmt, item),)
        return
    units = [_members(stmt, each) for each in item.expressions]
    for size in range(len(units), -1, -1):
        chosen = combinations(units, size) if isinstance(item, exp.Cube) else [tuple(units[:size])]
        yield from (tuple(node for unit in each for node in unit) for each in chosen)


def _members(stmt: SelectStmt, node: exp.Expr) -> Nodes:
    """`(a, b)` or `a`."""
    if isinstance(node, exp.Tuple):
        return tuple(_resolved(stmt, each) for each in node.expressions)
    return (_resolved(stmt, node.unnest()),)


def _resolved(stmt: SelectStmt, node: exp.Expr) -> exp.Expr:
    """What a number of a selected expression stands for."""
    if is_ordinal(node) and 1 <= int(node.name) <= len(stmt.projections):
        chosen = stmt.projections[int(node.name) - 1]
        return (chosen.this if isinstance(chosen, exp.Alias) else chosen).copy()
    return node


def _made(text: str) -> exp.Expr:
    """An expression that has no place in the query."""
    tree = read_expression(text)
    for node in tree.walk():
        node.meta.clear()
    return tree


def _within(numbers: Sequence[int]) -> str:
    return f"{SET} IN ({', '.join(map(str, numbers))})" if numbers else "FALSE"


def _text(node: exp.Expr) -> str:
    return render(node.copy()).lower()


def _error(stmt: SelectStmt, message: str, hint: str, at: exp.Expr) -> SqlError:
    place = at if stmt.source.span(at) else stmt.group_by_exprs[0]
    return stmt.source.error("GROUPING_SETS", message, hint, at=place)
