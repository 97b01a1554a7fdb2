"""`product(x)`: an aggregate."""

from __future__ import annotations

import math
from typing import cast

import pyarrow as pa

from windowpane import Aggregate


class Product(Aggregate):
    """The product of a group's values."""

    name = "product"
    input_types = (pa.int64(),)
    state_types = (pa.int64(),)
    output_type = pa.int64()
    incremental = True

    def update(self, *values: pa.Array) -> int:
        return math.prod(values[0].to_pylist())

    def merge(self, left: object, right: object) -> int:
        return cast(int, left) * cast(int, right)

    def evaluate(self, state: object) -> object:
        return state
