"""Batches of Kafka messages as Arrow columns, whichever client has fetched them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Pointers = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Event:
    """What came in place of a message: the end of the partition, or an error."""

    code: int
    offset: int
    text: str


@dataclass(frozen=True)
class Messages:
    """Messages of one partition in their order, and events among them."""

    offsets: Integers
    values: pa.Array
    keys: pa.Array | None
    times_ms: Integers | None
    """When they were recorded; -1 if unknown."""
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """Parts of messages beside value and offset."""

    key: bool = False
    time: bool = False
