"""Where rows of a plan come from, in the logical plan as in the physical one: a stream, or the results of a query."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.plan.describe import describe_columns
from windowpane.plan.node import PlanNode, Properties, shown
from windowpane.sql.query import Column


@dataclass(frozen=True)
class SourceNode(PlanNode):
    """A stream. `columns` is None when only the source knows them."""

    stream: str
    alias: str
    format: str | None
    columns: tuple[Column, ...] | None
    reading: int = 1
    """Which of the branches that read the stream this is: each reads it by itself, and may be ahead of the others."""

    @property
    def partitions_of(self) -> str:
        """The name of the stream in the names of its source partitions: `bids`, and `bids#2` where it is read again."""
        return self.stream if self.reading == 1 else f"{self.stream}#{self.reading}"

    def partition(self, name: str) -> str:
        """The source partition of that name, as this branch reads it."""
        return f"{self.partitions_of}{name.removeprefix(self.stream)}"

    def properties(self) -> Properties:
        alias = self.alias if self.alias != self.stream else None
        reading = self.reading if self.reading > 1 else None
        return shown(
            stream=self.stream, reading=reading, alias=alias, format=self.format, columns=describe_columns(self.columns)
        )


@dataclass(frozen=True)
class ResultsNode(PlanNode):
    """The results of a windowed query, as rows. `query` is that query; it is planned before and put in at the end."""

    columns: tuple[Column, ...]
    query: PlanNode | None = None

    def children(self) -> tuple[PlanNode, ...]:
        return () if self.query is None else (self.query,)

    def properties(self) -> Properties:
        return shown(columns=describe_columns(self.columns))
