"""What several projections over the same rows compute: each expression and each event time once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import pyarrow as pa

from windowpane.evaluation.event_times import EventTimes
from windowpane.evaluation.expressions import Columns, Computed, evaluate


class CommonValues:
    """Over the rows of `source`. `items`: all expressions that will be asked for, computed by one query."""

    def __init__(self, source: pa.RecordBatch | pa.Table, clock_us: int, items: Iterable[Computed]) -> None:
        self._source, self._clock_us = source, clock_us
        self._names = {item: f"_{number}" for number, item in enumerate(dict.fromkeys(items))}
        self._times: list[tuple[EventTimes, Columns]] = []

    @cached_property
    def _evaluated(self) -> tuple[Columns, Columns]:
        return evaluate({name: item for item, name in self._names.items()}, self._source)

    def computed(self, items: dict[str, Computed]) -> tuple[Columns, Columns]:
        """As `evaluate`."""
        if not items:
            return {}, {}
        values, failed = self._evaluated
        asked = {name: self._names[item] for name, item in items.items()}
        masks = {name: failed[known] for name, known in asked.items() if known in failed}
        return {name: values[known] for name, known in asked.items()}, masks

    def times(self, times: EventTimes) -> Columns:
        """As `EventTimes.resolve`."""
        for known, columns in self._times:
            if known == times:
                return dict(columns)
        columns = times.resolve(self._source, self._clock_us)
        self._times.append((times, columns))
        return dict(columns)
