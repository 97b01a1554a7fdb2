"""Writes the Java classes that a pipeline loads to `spark.jsa` in .venv, from which the Spark processes of tests start.

    python -m scripts.java_archive

Loading them takes each process some seconds of a core. Java itself sees whether an archive fits its version and its
jars, and does without one that does not. Nothing happens when the archive is there for this Java and this PySpark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ARCHIVE = Path(sys.prefix) / "spark.jsa"
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Most Java processes of the tests live for seconds: what Java's second compiler spends on them never pays off."""
_QUIET = "-Xshare:auto -Xlog:disable -Xlog:all=off"


def java_options() -> str:
    """For SPARK_SUBMIT_OPTS, in tests."""
    return f"{OPTIONS} {_QUIET} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else OPTIONS


def write_archive() -> None:
    """Run a pipeline on a Spark of its own, whose Java writes the archive when it ends."""
    os.environ["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} {_QUIET} -XX:ArchiveClassesAtExit={ARCHIVE}"
    from windowpane.config import SparkSettings  # noqa: PLC0415  # Java starts with the variable of before
    from windowpane.config.example import write_example  # noqa: PLC0415
    from windowpane.connectors.sinks import MemorySink  # noqa: PLC0415
    from windowpane.runtime import Pipeline  # noqa: PLC0415
    from windowpane.spark.session import create_session  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="windowpane-archive-") as folder:
        spark = create_session(SparkSettings(master="local[2]"), log=Path(folder) / "spark.log")
        write_example(Path(folder))
        pipeline = Pipeline.from_toml(Path(folder) / "pipeline.toml", sinks={"results": MemorySink("results")})
        running = pipeline.start(spark)
        running.wait()
        running.drain()
        java: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001
        spark.stop()
        java.stdin.close()
        java.wait(120)


def _wanted() -> str:
    """What an archive is for."""
    import pyspark  # noqa: PLC0415

    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)  # noqa: S603
    return f"{pyspark.__version__} {Path(pyspark.__file__).parent} {OPTIONS}\n{told.stderr}"


def main() -> None:
    stamp = ARCHIVE.with_suffix(".txt")
    wanted = _wanted()
    if ARCHIVE.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print("Writing the Java classes of a pipeline to an archive, so that the tests start faster …", file=sys.stderr)
    ARCHIVE.parent.mkdir(exist_ok=True)
    ARCHIVE.unlink(missing_ok=True)
    write_archive()
    stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
