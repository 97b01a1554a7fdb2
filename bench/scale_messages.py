"""What messages between tasks and shards cost: the Python stages of a query without Spark, in one process.

    python -m bench.scale_messages [--rows 65536] [--groups 1000]

A micro-batch with T tasks and S shards sends T times S messages. Rows and groups stay the same here: what grows is the
cost of tasks, of shards and of messages. CPU seconds, which other work on the machine disturbs little.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from tests.spark.staged import Layout, StagedRunner, staged

SQL = "SELECT k, count(*) AS n, sum(v) AS s, max(v) AS m FROM s GROUP BY tumblingwindow('hh', 1), k"
SCHEMA = "ts BIGINT, k BIGINT, v BIGINT"
LAYOUTS = ((1, 1), (4, 4), (16, 16), (64, 1), (1, 64), (64, 64), (128, 128))
REPEATS = 5


def measure(tasks: int, shards: int, rows: int, groups: int) -> tuple[float, int, int]:
    """CPU seconds of a micro-batch, bytes of its messages, and partial results in them."""
    streams = {"s": {"schema": SCHEMA, "eventtime": {"column": "ts", "type": "unixtimestamp_s"}}}
    harness = staged(Layout(shards, tasks), SQL, streams=streams, options={"eventtime.enabled": True})
    random = np.random.default_rng(3)
    keys = random.integers(0, groups, rows).tolist()
    batch = harness._inputs.rows(harness._pushed([{"ts": 1, "k": k, "v": k} for k in keys], "s", "0"))  # noqa: SLF001
    runner: Any = harness._runner  # noqa: SLF001
    size, sent = _weighed(runner)
    took = []
    for _ in range(REPEATS):
        began = time.process_time()
        runner.run_batch(1_000_000, {"s": [batch]})
        took.append(time.process_time() - began)
    return statistics.median(took[1:]), size[0] // REPEATS, sent[0] // REPEATS


def _weighed(runner: StagedRunner) -> tuple[list[int], list[int]]:
    """Counts what tasks send, and of that the partial results, by the reports of the shards."""
    size, sent, fold, result = [0], [0], runner._fold, runner._result  # noqa: SLF001

    def weigh(*arguments: Any) -> list[bytes]:
        payloads = fold(*arguments)
        size[0] += sum(map(len, payloads))
        return payloads

    def count(*arguments: Any) -> Any:
        done = result(*arguments)
        sent[0] += sum(count for report in runner.reports for count in _received(report))
        return done

    runner._fold, runner._result = weigh, count  # type: ignore[method-assign]  # noqa: SLF001
    return size, sent


def _received(report: Any) -> list[int]:
    return [number for name, number in report.tallies.items() if name.startswith("received.")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--groups", type=int, default=1_000)
    given = parser.parse_args()
    print(f"{given.rows:,} rows, {given.groups:,} groups")
    print("tasks shards  messages      CPU ms   MB sent   partial results   µs a message beyond 1 × 1")
    alone = measure(1, 1, given.rows, given.groups)[0]
    for tasks, shards in LAYOUTS:
        cpu, size, sent = measure(tasks, shards, given.rows, given.groups)
        each = (cpu - alone) / (tasks * shards) * 1e6
        print(f"{tasks:5} {shards:6} {tasks * shards:9,} {cpu * 1e3:11.1f} {size / 1e6:9.2f} {sent:17,} {each:12.1f}")


if __name__ == "__main__":
    main()
