"""From the results of a windowed query to the rows of the query around it: HAVING and SELECT of the one, then the input
projection of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.rows import int64s
from windowpane.core.window_id import window_ids
from windowpane.evaluation.compared_results import HELD, Comparison
from windowpane.evaluation.projection import Projection

_TIME = "_result_time"


def with_pseudo_columns(
    results: pa.RecordBatch, plan_id: str, read: Collection[str] | None = None
) -> dict[str, pa.Array]:
    """The columns of results by name, with those that SELECT knows of the window. `read`: those that are needed."""
    columns = {name: results.column(name) for name in results.schema.names}
    made: dict[str, Callable[[], pa.Array]] = {}
    if c.WINDOW_START in columns:
        start, end = int64s(results, c.WINDOW_START), int64s(results, c.WINDOW_END)
        salt = int64s(results, c.WINDOW_SALT) if c.WINDOW_SALT in columns else None
        made = {"window_start": lambda: _instants(start), "window_end": lambda: _instants(end)}
        made |= {"window_time": lambda: _instants(end - 1)}
        made |= {"window_id": lambda: window_ids(plan_id, start, end, salt)}
    if c.TRIGGER in columns:
        made["trigger_time"] = lambda: _instants(int64s(results, c.TRIGGER))
    columns["emit_epoch"], columns["is_final"] = columns.pop(c.EPOCH), columns.pop(c.FINAL)
    return columns | {name: make() for name, make in made.items() if read is None or name in read}


def _instants(values: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp("us", "UTC"))


@dataclass(frozen=True)
class ResultRows:
    """Picklable: computes rows in the workers."""

    plan_id: str
    """Of the inner query, for the ids of its windows."""
    select: Projection
    """HAVING and the columns of the inner query, over its results."""
    read: frozenset[str]
    """Columns of results that these read."""
    has_having: bool
    projection: Projection
    """The columns that the operators of the outer query read, over those of the inner one."""
    aliases: tuple[tuple[str, str], ...]
    """Columns that operators read, each with the column of the projection that it is."""
    comparisons: tuple[Comparison, ...] = ()
    """Steps over all results of a window, before `select`."""

    @property
    def computes(self) -> bool:
        """Whether anything is computed, and not only taken along."""
        own = self.select.computed or self.projection.computed or self.projection.times
        return bool(own or self.comparisons)

    @property
    def compares(self) -> bool:
        """Whether it needs all results of a window at once."""
        return bool(self.comparisons)

    def rows(self, results: pa.RecordBatch, times: npt.NDArray[np.int64], clock_us: int) -> pa.RecordBatch:
        """As of `core.operators.chained.RowsOfResults`."""
        source = pa.table({**with_pseudo_columns(results, self.plan_id, self.read), _TIME: pa.array(times)})
        for comparison in self.comparisons:
            source = comparison.of(source)
        times = source.column(_TIME)
        source = source.drop_columns([name for name in (_TIME, c.EVENT_TIME) if name in source.schema.names])
        source = source.append_column(c.EVENT_TIME, times)
        selected = self._held(self.select.rows(source, clock_us))
        found = self.projection.rows(selected, clock_us)
        columns = {name: found.column(name) for name in found.schema.names if name != c.TIME_SOURCE}
        columns |= {name: columns[column] for name, column in self.aliases}
        return pa.RecordBatch.from_pydict(columns)

    def _held(self, selected: pa.RecordBatch) -> pa.RecordBatch:
        """Without the results that HAVING drops. Those for which it fails stay: they are error rows."""
        if not self.has_having:
            return selected
        held = pc.fill_null(selected.column(HELD), False)
        if c.ERROR in selected.schema.names:
            held = pc.or_(held, selected.column(c.ERROR).is_valid())
        names = [name for name in selected.schema.names if name not in (HELD, c.KEEP)]
        return selected.select(names).filter(held)
