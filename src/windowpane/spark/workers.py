"""How Spark starts Python workers: which interpreter, and how to start it fast on this machine.

Spark puts an archive of PySpark in front of every worker's path. Python compiles what it imports from an archive each
time, which takes longer than all the rest of a worker's start. The same modules are installed beside windowpane, where
Python keeps them compiled. So workers are started by a script that takes the archive off their path.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from windowpane.bundling import LAUNCHER
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
SENT_FOLDER = "windowpane"
"""Where executors unpack the bundle, in their working folder."""
SENT_PYTHON = f"./{SENT_FOLDER}/{LAUNCHER}"
DAEMON = {"spark.python.daemon.module": "windowpane.spark.daemon"}


def is_local(master: str) -> bool:
    """Whether all of Spark runs on this machine: `local`, `local[4]`, `local-cluster[2,1,1024]`."""
    return re.match(r"local(\[|-cluster\[|$)", master) is not None


def chosen_python(config: Mapping[str, str]) -> str | None:
    """The interpreter that the user wants workers to run."""
    return os.environ.get("PYSPARK_PYTHON") or config.get("spark.pyspark.python")


@contextmanager
def worker_python(config: Mapping[str, str], *, is_sent: bool) -> Iterator[dict[str, str]]:
    """Around the start of a session: settings for it, and the interpreter in the environment, where PySpark looks.

    `is_sent`: executors get a bundle. Otherwise, on other machines, workers run the interpreter that the user names,
    or one at the path of the driver's; windowpane need not be there yet when they start.
    """
    chosen, before = chosen_python(config), os.environ.get("PYSPARK_PYTHON")
    is_quick = is_local(config["spark.master"]) and chosen in (None, sys.executable) and not _from_archive()
    own = _script() if is_quick else chosen or sys.executable
    os.environ["PYSPARK_PYTHON"] = SENT_PYTHON if is_sent else own
    try:
        yield DAEMON if is_quick or is_sent else {}
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


def use_own_interpreter(spark: SparkSession) -> None:
    """In a session of the user, let local workers run the driver's interpreter, unless PYSPARK_PYTHON names one.

    PySpark would start the `python3` on PATH, which has no windowpane where a virtual environment is not activated.
    """
    context = spark.sparkContext
    if "PYSPARK_PYTHON" not in os.environ and is_local(context.master or "") and context.pythonExec == "python3":
        context.pythonExec = sys.executable


def _from_archive() -> bool:
    return not Path(pyspark.__file__).is_file()


def folder_of_driver() -> Path:
    """A working folder for the driver's JVM, in which the path of the interpreter that is sent is a script of ours.

    The JVM itself starts a worker now and then, by the same path as executors do.
    """
    folder = make_temporary("python")
    script = folder / SENT_PYTHON
    script.parent.mkdir(parents=True)
    _write_script(script)
    return folder


def _script() -> str:
    """An executable to start workers with; the interpreter itself where scripts cannot be executed."""
    script = make_temporary("python") / "python3"
    _write_script(script)
    try:
        tried = subprocess.run([script, "-S", "-c", ""], capture_output=True, check=False)  # noqa: S603
    except OSError:
        return sys.executable
    return str(script) if tried.returncode == 0 else sys.executable


def _write_script(script: Path) -> None:
    script.write_text(_SCRIPT.format(python=sys.executable), encoding="utf-8")
    script.chmod(0o755)
