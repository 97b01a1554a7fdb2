"""What `latency_job.py` does, for Flink: `python flink_latency_job.py TASK.json`. It stands alone too."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from flink_job import create


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    environment = create(task["settings"])
    for statement in task["statements"][:-1]:
        environment.execute_sql(statement)
    result = environment.execute_sql(task["statements"][-1])
    Path(task["ready"]).touch()
    Path(task["answer"]).write_text(json.dumps(_collect(result, Path(task["stop"]))), encoding="utf-8")
    result.get_job_client().cancel().result()


def _collect(result: Any, stop: Path) -> dict[int, tuple[int, float]]:
    """Rows come as long as there is input, so that the request to stop is seen."""
    arrivals: dict[int, tuple[int, float]] = {}
    with result.collect() as rows:
        for end_ms, count in rows:
            now = time.time()
            end_us = end_ms * 1000
            arrivals[end_us] = (arrivals.get(end_us, (0, 0.0))[0] + count, now)
            if stop.exists():
                break
    return arrivals


if __name__ == "__main__":
    main()
