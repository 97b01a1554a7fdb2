"""How Spark starts Python workers, where it starts them on this machine.

Spark puts an archive of PySpark in front of every worker's path. Python compiles what it imports from an archive each
time, which takes longer than all the rest of a worker's start. The same modules are installed beside windowpane, where
Python keeps them compiled. So workers are started by a script that takes the archive off their path.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from windowpane.temporary import make_temporary

_SCRIPT = """#!/bin/sh
rest=
IFS=:
for part in $PYTHONPATH; do
  case $part in
    */pyspark.zip | */py4j-*-src.zip) ;;
    *) rest=$rest${{rest:+:}}$part ;;
  esac
done
unset IFS
PYTHONPATH=$rest exec "{python}" "$@"
"""
DAEMON = {"spark.python.daemon.module": "windowpane.spark.daemon"}


def is_local(master: str) -> bool:
    """Whether all of Spark runs on this machine: `local`, `local[4]`, `local-cluster[2,1,1024]`."""
    return re.match(r"local(\[|-cluster\[|$)", master) is not None


@contextmanager
def quick_workers(master: str) -> Iterator[dict[str, str]]:
    """Around the start of a session: settings for it, and the interpreter in the environment, where PySpark looks.

    On other machines neither the script nor, at a worker's start, windowpane need be there.
    """
    chosen = os.environ.get("PYSPARK_PYTHON")
    if not is_local(master) or chosen not in (None, sys.executable) or _from_archive():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        yield {}
        return
    os.environ["PYSPARK_PYTHON"] = _script()
    try:
        yield DAEMON
    finally:
        os.environ["PYSPARK_PYTHON"] = chosen or sys.executable


def use_own_interpreter(spark: SparkSession) -> None:
    """In a session of the user, let local workers run the driver's interpreter, unless PYSPARK_PYTHON names one.

    PySpark would start the `python3` on PATH, which has no windowpane where a virtual environment is not activated.
    """
    context = spark.sparkContext
    if "PYSPARK_PYTHON" not in os.environ and is_local(context.master or "") and context.pythonExec == "python3":
        context.pythonExec = sys.executable


def _from_archive() -> bool:
    return not Path(pyspark.__file__).is_file()


def _script() -> str:
    """An executable to start workers with; the interpreter itself where scripts cannot be executed."""
    script = make_temporary("python") / "python3"
    script.write_text(_SCRIPT.format(python=sys.executable), encoding="utf-8")
    script.chmod(0o755)
    try:
        tried = subprocess.run([script, "-S", "-c", ""], capture_output=True, check=False)  # noqa: S603
    except OSError:
        return sys.executable
    return str(script) if tried.returncode == 0 else sys.executable
