"""approx_count_distinct by HyperLogLog sketches of Apache DataSketches. State is a serialized sketch, NULL when empty.

The library takes one value at a time, so it only gets the distinct values of each group.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

import datasketches
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.kernels.columns import canonical_floats, numpy_dtype, physical, validity
from windowpane.core.accumulators.types import ORDERABLE, is_float, is_orderable, require
from windowpane.core.groups import Groups, group_rows
from windowpane.errors import PlanError

DEFAULT_DEVIATION = 0.05
_ERROR_FACTOR = 1.04
_SMALLEST, _LARGEST = 7, 21
_KIND = datasketches.tgt_hll_type.HLL_8


class DistinctSketchAccumulator:
    """Counts distinct values to within a relative standard deviation."""

    output_type = pa.int64()
    state_types: Sequence[pa.DataType] = (pa.binary(),)
    arrival_states: Sequence[int] = ()

    def __init__(self, deviation: float) -> None:
        self._log2_size = min(max(math.ceil(2 * math.log2(_ERROR_FACTOR / deviation)), _SMALLEST), _LARGEST)

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, valid = inputs.args[0], validity(inputs.args[0])
        if valid is not None:
            rows = np.flatnonzero(valid)
            values, groups = values.take(pa.array(rows)), groups.take(rows)
        _, first = group_rows([pa.array(groups.ids), values], len(values))
        distinct = groups.take(first)
        data = _hashable(values.take(pa.array(first[distinct.order])))
        bounds = distinct.offsets.tolist()
        return [pa.array([self._sketch(data[low:high]) for low, high in pairwise(bounds)], pa.binary())]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        blobs = states[0].take(pa.array(groups.order)).to_pylist()
        bounds = groups.offsets.tolist()
        merged = [self._union(blobs[low:high]) for low, high in pairwise(bounds)]
        return [pa.array(merged, pa.binary())]

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return Evaluated(pa.array([self._estimate(blob) for blob in states[0].to_pylist()], pa.int64()))

    def _sketch(self, data: Sequence[object]) -> bytes | None:
        if not data:
            return None
        sketch = datasketches.hll_sketch(self._log2_size, _KIND)
        deque(map(sketch.update, data), maxlen=0)
        return bytes(sketch.serialize_compact())

    def _union(self, blobs: Sequence[bytes | None]) -> bytes | None:
        present = [blob for blob in blobs if blob is not None]
        if len(present) < 2:
            return present[0] if present else None
        union = datasketches.hll_union(self._log2_size)
        for blob in present:
            union.update(datasketches.hll_sketch.deserialize(blob))
        return bytes(union.get_result(_KIND).serialize_compact())

    def _estimate(self, blob: bytes | None) -> int:
        if blob is None:
            return 0
        union = datasketches.hll_union(self._log2_size)
        sketch = datasketches.hll_sketch.deserialize(blob)
        # Twice: the estimate of a sketch that was never merged depends on the order of its values.
        union.update(sketch)
        union.update(sketch)
        return round(float(union.get_estimate()))


def _hashable(values: pa.Array) -> list[object]:
    """Equal values as equal ints or strings, the two kinds that the library hashes. It ignores empty strings."""
    if is_float(values.type):
        doubles = canonical_floats(physical(values).astype(np.float64))
        return list(doubles.view(np.int64).tolist())
    if numpy_dtype(values.type) is not None:
        return list(physical(values).astype(np.int64).tolist())
    if pa.types.is_decimal(values.type):
        return list(values.cast(pa.string()).to_pylist())
    marked = pc.binary_join_element_wise(pa.scalar("_", values.type), values, pa.scalar("", values.type))
    data = marked.to_pylist()
    return data if isinstance(next(iter(data), ""), str) else list(map(bytes.hex, data))


def build_approx_count_distinct(types: Sequence[pa.DataType], params: Sequence[object]) -> DistinctSketchAccumulator:
    require("approx_count_distinct", types[0], is_orderable, ORDERABLE)
    deviation = params[0] if params else DEFAULT_DEVIATION
    if not isinstance(deviation, int | float | Decimal) or not 0 < deviation < 1:
        raise PlanError(
            "AGGREGATE_PARAM",
            f"`{deviation}` is not a relative standard deviation for `approx_count_distinct`",
            f"write a number between 0 and 1; the default is {DEFAULT_DEVIATION}",
        )
    return DistinctSketchAccumulator(float(deviation))
