"""The engines by name, and the limit that none of them reaches."""

from __future__ import annotations

import statistics
import time

from bench.nexmark.datasets import Dataset
from bench.nexmark.engine import Engine
from bench.nexmark.on_flink import Flink
from bench.nexmark.on_spark import Spark, Windowpane
from bench.nexmark.query import Query
from bench.nexmark.result_check import connect

ENGINES: dict[str, type[Engine]] = {"windowpane": Windowpane, "spark": Spark, "flink": Flink}


def limit(query: Query, data: Dataset, repeats: int = 3) -> float:
    """Rows per second of one batch query in DuckDB over the same files, its results fetched, two threads."""
    database, samples = connect(data.folders, data.format, data.tables), []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        database.sql(query.duckdb).to_arrow_table()
        samples.append(time.perf_counter() - began)
    return data.rows / statistics.median(samples[1:])
