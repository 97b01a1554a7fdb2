"""The base of all plan nodes, logical and physical: children and printable properties.

Nodes hold no ids: `explain` numbers them in pre-order, so equal plans print equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, cast

Printable: TypeAlias = str | int | bool | list[str]
"""The type of a property. The text and the JSON of EXPLAIN show the same value."""

Properties: TypeAlias = dict[str, Printable]


@dataclass(frozen=True)
class PlanNode:
    """One step of a plan. Frozen and compared by value, so that a rule that changed nothing is recognised."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def children(self) -> tuple[PlanNode, ...]:
        """The nodes that rows come from, in order."""
        return ()

    def with_children(self, children: tuple[PlanNode, ...]) -> Self:
        """The same node over other children (as many as before)."""
        return self

    def properties(self) -> Properties:
        """What EXPLAIN shows, in this order, without properties that are empty or have their default."""
        return {}


@dataclass(frozen=True)
class UnaryNode(PlanNode):
    child: PlanNode

    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def with_children(self, children: tuple[PlanNode, ...]) -> Self:
        return cast(Self, replace(cast(Any, self), child=children[0]))


@dataclass(frozen=True)
class UnionNode(PlanNode):
    branches: tuple[PlanNode, ...]

    def children(self) -> tuple[PlanNode, ...]:
        return self.branches

    def with_children(self, children: tuple[PlanNode, ...]) -> Self:
        return cast(Self, replace(cast(Any, self), branches=children))


def shown(**values: object) -> Properties:
    """Properties without those that are None, False or empty; tuples become lists."""
    kept = {name: value for name, value in values.items() if value is not None and value is not False}
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}
    return cast(Properties, {name: value for name, value in listed.items() if value not in ("", [])})
