"""What a plan is made from: the bound query and the settings of its streams, its pipeline and its transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windowpane.config import Limits, Options, Stream, Transform
from windowpane.errors import PlanError, Span
from windowpane.plan.eventtime.types import EventtimeTypes
from windowpane.sql.query import BoundQuery, StreamRef


@dataclass(frozen=True)
class PlanContext:
    """Everything that planning may read. `name` is that of the transform."""

    bound: BoundQuery
    streams: Mapping[str, Stream]
    options: Options
    transform: Transform
    types: EventtimeTypes
    name: str
    others: Mapping[str, Transform] = field(default_factory=dict)
    """The transforms that the query can read by name."""
    beside_others: bool = False
    """Other queries read streams of the same input: this one is a side of a join, or a branch of a UNION ALL."""

    def refs(self) -> Sequence[StreamRef]:
        """The streams in FROM order, one per branch of a union."""
        relation = self.bound.relation
        if relation.query is not None:
            return []
        if relation.branches:
            return [branch.stream for branch in relation.branches if branch.query is None]
        return list(relation.streams)

    @property
    def is_chained(self) -> bool:
        """Whether the query reads the results of another one."""
        return self.bound.relation.query is not None

    @property
    def releases_in_order(self) -> bool:
        """Whether rows are released by (event time, arrival): plain rows, and rows of windows that need it."""
        window = self.bound.window
        return not self.joins_intervals if window is None else window.spec.ordered

    @property
    def joins_results(self) -> bool:
        """Whether the rows of the input part, and meet again in joins."""
        relation = self.bound.relation
        return relation.joins_results or any(replace(self, bound=query).joins_results for query in relation.queries)

    @property
    def joins_intervals(self) -> bool:
        """Whether rows of two streams are joined without a window: each as soon as it comes."""
        return self.bound.window is None and self.bound.relation.stream_join is not None

    def error(
        self, code: str, message: str, hint: str, *, span: Span | None = None, key: str | None = None
    ) -> PlanError:
        """An error at a place of the query, or at a key of the configuration."""
        return PlanError(code, message, hint, sql=self.bound.text, span=span, key=key)

    def own_key(self, key: str) -> str:
        """The path of a key of this transform."""
        return f"transforms.{self.name}.{key}"


def reading(context: PlanContext) -> PlanContext:
    """The context of a query, with the settings of the transform that concern it.

    Those that concern rows of the source belong to the queries that read streams.
    """
    if not context.is_chained:
        if context.bound.window is not None or not context.bound.relation.joins_results:
            return context
        return replace(context, transform=context.transform.model_copy(update={"allowed_lateness_us": None}))
    of_source = ("event_time_field", "watermark_lag_us", "allowed_lateness_us", "dedupe")
    return replace(context, transform=context.transform.model_copy(update=dict.fromkeys(of_source)))


def without_limits(context: PlanContext) -> PlanContext:
    """The context of a query that another one reads: limits concern the groups of the outermost query."""
    return replace(context, transform=context.transform.model_copy(update={"limits": Limits()}))
