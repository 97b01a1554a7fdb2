"""Files of bids, which the benchmarks read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Int64s: TypeAlias = npt.NDArray[np.int64]
SCHEMA = "auction BIGINT, bucket BIGINT, price BIGINT, ts TIMESTAMP"
BEGIN_US = 1_700_002_800_000_000
"""A full hour."""


def write_bids(path: Path, auctions: Int64s, ts_us: Int64s, random: np.random.Generator) -> None:
    """One bid per auction and time given, at random prices."""
    columns = {
        "auction": auctions,
        "bucket": auctions % 1_000,
        "price": random.integers(0, 10_000, len(auctions)),
        "ts": pa.array(ts_us, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), path)
