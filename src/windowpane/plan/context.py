"""What a plan is made from: the bound query and the settings of its streams, its pipeline and its transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windowpane.config import Options, Stream, Transform
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

    def refs(self) -> Sequence[StreamRef]:
        """The streams in FROM order, one per branch of a union."""
        relation = self.bound.relation
        if relation.query is not None:
            return []
        return [branch.stream for branch in relation.branches] or list(relation.streams)

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


def chained(context: PlanContext) -> list[PlanContext]:
    """The contexts of the queries that a query reads the results of, from the one over the source, and its own.

    Settings of the transform that concern rows of the source belong to the first of them.
    """
    inner = context.bound.relation.query
    if inner is None:
        return [context]
    below = chained(replace(context, bound=inner))
    of_source = ("event_time_field", "watermark_lag_us", "allowed_lateness_us", "dedupe")
    transform = context.transform.model_copy(update=dict.fromkeys(of_source))
    return [*below, replace(context, transform=transform)]
