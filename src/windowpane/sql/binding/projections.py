"""The list of SELECT: each item with its name, `*` written out as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from windowpane.errors import nearest
from windowpane.sql.binding.relation import BoundRelation
from windowpane.sql.binding.result_names import Projection, ResultNames
from windowpane.sql.binding.scope import name_node
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.source import SourceText


@dataclass(frozen=True)
class ProjectionBinder:
    """Resolves what SELECT lists."""

    source: SourceText
    from_: BoundRelation
    names: ResultNames

    def bind(self, items: Sequence[exp.Expr]) -> list[Projection]:
        """The selected columns, `*` written out."""
        found: list[Projection] = []
        for item in items:
            found += self._star(item) if item.is_star else [self._projection(item)]
        _refuse_duplicates(self.source, found)
        return found

    def _projection(self, item: exp.Expr) -> Projection:
        span = self.source.span(item)
        inner = item.this if isinstance(item, exp.Alias) else item
        node = self.names.resolve(inner, "SELECT")
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
        nodes = [(output, bound_column(name, item)) for output, name in kept]
        return [Projection(output, node, render(node), span) for output, node in nodes]

    def _columns_of(
        self, alias: str, columns: tuple[tuple[str, str], ...] | None, item: exp.Expr
    ) -> tuple[tuple[str, str], ...]:
        if columns is None:
            message = f"the columns of `{alias}` are unknown, so `*` cannot be used"
            raise self.source.error("NEEDS_SCHEMA", message, "list the columns, or declare a schema", at=item)
        return columns


def bound_column(name: str, like: exp.Expr | None = None) -> exp.Expr:
    node = name_node(name, like)
    node.meta["bound"] = True
    return node


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
