"""The items of GROUP BY beside the window: expressions, aliases and numbers of selected expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.result_names import Projection
from windowpane.sql.query import Expr, GroupKey
from windowpane.sql.syntax.source import SourceText


@dataclass(frozen=True)
class GroupKeyBinder:
    """Binds GROUP BY over the rows of FROM, given what is selected."""

    source: SourceText
    rows: RowExpressions
    projections: Sequence[Projection]

    def bind(self, items: Sequence[exp.Expr]) -> tuple[tuple[GroupKey, ...], list[exp.Expr]]:
        """The keys, and the syntax of each."""
        keys: dict[str, GroupKey] = {}
        nodes: list[exp.Expr] = []
        for given in items:
            span, item = self.source.span(given), given.unnest()
            node = self._ordinal_or_alias(item)
            label = selected(self.source, item, self.projections).name if is_ordinal(item) else self.source.quote(span)
            expr = self.rows.bind(node if node is not None else item, "GROUP BY")
            if expr.text not in keys:
                keys[expr.text] = GroupKey(
                    f"_k{len(keys)}", label or expr.text, Expr(expr.text, expr.type, expr.columns, span)
                )
                nodes.append(node if node is not None else item)
        return tuple(keys.values()), nodes

    def _ordinal_or_alias(self, item: exp.Expr) -> exp.Expr | None:
        """The selected expression that a GROUP BY item stands for, None when it stands for itself."""
        if is_ordinal(item):
            return selected(self.source, item, self.projections).node.copy()
        if not isinstance(item, exp.Column) or len(item.parts) != 1 or self._is_column(item):
            return None
        found = [each for each in self.projections if each.name.lower() == item.name.lower()]
        return found[0].node.copy() if found and not found[0].node.meta.get("pseudo") else None

    def _is_column(self, item: exp.Column) -> bool:
        return any(source.find(item.name) is not None for source in self.rows.scope.sources)


def selected(source: SourceText, item: exp.Expr, projections: Sequence[Projection]) -> Projection:
    """The selected expression whose number an item of GROUP BY or ORDER BY is."""
    index = int(item.name)
    if not 1 <= index <= len(projections):
        message = f"there is no column number {index}, {len(projections)} are selected"
        raise source.error("BAD_ORDINAL", message, "name the column", at=item)
    return projections[index - 1]


def is_ordinal(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
