"""`windowpane.sql` in a virtual environment that is not activated: no worker starts the `python3` on PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

JOB = """
import json, pathlib, sys
import windowpane
from pyspark.sql import SparkSession

base = pathlib.Path(sys.argv[1])
(base / "in").mkdir()
(base / "in" / "a.json").write_text("\\n".join(json.dumps({"ts": second * 1000}) for second in range(30)))
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
stream = spark.readStream.schema("ts BIGINT").json(str(base / "in"))
results = windowpane.sql(
    spark,
    "SELECT count(*) AS c FROM s GROUP BY tumblingwindow('ss', 10)",
    {"s": {"frame": stream, "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}},
    options={"eventtime": {"enabled": True}},
)
written = results.writeStream.format("memory").queryName("r").option("checkpointLocation", str(base / "state"))
written.trigger(availableNow=True).start().awaitTermination()
print("counts", [row["c"] for row in spark.table("r").collect()])
"""
STUB = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/started"
exit 97
"""


def test_workers_run_the_drivers_interpreter(tmp_path: Path) -> None:
    """A `python3` without windowpane stands first on PATH, and is never started."""
    stub = tmp_path / "bin" / "python3"
    stub.parent.mkdir()
    stub.write_text(STUB, encoding="utf-8")
    stub.chmod(0o755)
    hidden = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env["PATH"] = f"{stub.parent}{os.pathsep}{env['PATH']}"
    command = [sys.executable, "-c", JOB, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert "counts [10, 10]" in done.stdout, done.stdout + done.stderr[-4000:]
    assert not (stub.parent / "started").exists()
