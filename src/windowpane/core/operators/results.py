"""From window states to results. Groups whose result does not fit its type become side rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.aggregation import Aggregator, empty_batch
from windowpane.core.frames import Emissions, Frame, SideRows
from windowpane.core.operators.base import Operator
from windowpane.core.rows import select
from windowpane.core.side import Key

Int64s = npt.NDArray[np.int64]


def emit(
    operator: Operator,
    aggregator: Aggregator,
    states: pa.RecordBatch,
    keys: Sequence[Key],
    *,
    start: Int64s,
    end: Int64s,
    epochs: Int64s,
    final: bool,
    extra: dict[str, Int64s] | None = None,
) -> list[Frame]:
    """Emissions for the rows of `states`, side rows for groups in which an aggregate overflowed or raised."""
    values, overflows, failures = aggregator.evaluate(states)
    arrays = {c.WINDOW_START: pa.array(start), c.WINDOW_END: pa.array(end)}
    arrays |= {name: pa.array(column) for name, column in (extra or {}).items()}
    arrays |= {key.name: states.column(key.name) for key in keys}
    arrays |= values
    arrays |= {c.EPOCH: pa.array(epochs), c.FINAL: pa.array(np.full(states.num_rows, final))}
    results = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
    frames: list[Frame] = []
    good = np.ones(states.num_rows, np.bool_)
    found = ((side.OVERFLOW, overflows, "does not fit its type"), (side.EVALUATION, failures, "cannot be computed"))
    for reason, masks, words in found:
        if not masks:
            continue
        bad = np.logical_or.reduce(list(masks.values())) & good
        good &= ~bad
        names = ", ".join(aggregator.describe(name) for name in masks)
        refused = side.side_batch(
            "error", reason, select(results, bad), clock_us=operator.clock_us, watermark_us=operator.watermark_us,
            keys=keys, window_start=start[bad], window_end=end[bad], detail=f"the result of {names} {words}",
        )  # fmt: skip
        frames.append(SideRows(side.not_read(refused, side.RESULT)))
    return [*frames, Emissions(select(results, good) if frames else results)]


def result_schema(
    operator: Operator, aggregator: Aggregator, keys: Sequence[Key], extra: Sequence[str] = ()
) -> pa.Schema:
    """Schema of the results that `emit` gives."""
    none = np.zeros(0, np.int64)
    frames = emit(
        operator, aggregator, empty_batch(aggregator.state_schema()), keys,
        start=none, end=none, epochs=none, final=True, extra=dict.fromkeys(extra, none),
    )  # fmt: skip
    return next(frame.batch.schema for frame in frames if isinstance(frame, Emissions))
