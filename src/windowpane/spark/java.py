"""Finds out why Spark's JVM did not start: no Java, a JAVA_HOME without one, or one that is too old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from windowpane.errors import SparkError

OLDEST = 17
_INSTALL = (
    f"install Java {OLDEST} or newer (Debian, Ubuntu: apt-get install openjdk-{OLDEST}-jre-headless; "
    f"macOS: brew install openjdk@{OLDEST}), and put it on PATH or set JAVA_HOME to its folder"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_problem() -> SparkError | None:
    """What is wrong with the Java that Spark starts, None if it is fine. Spark looks in JAVA_HOME, else on PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return SparkError("JAVA_MISSING", f"Spark needs Java {OLDEST} or newer, and there is no Java on PATH", _INSTALL)
    major = _major(java)
    if major is None:
        where = f"JAVA_HOME is {home}, but {java} does not run" if home else f"{java} does not run"
        return SparkError("JAVA_MISSING", f"Spark needs Java {OLDEST} or newer: {where}", _INSTALL)
    if major < OLDEST:
        return SparkError("JAVA_TOO_OLD", f"Spark needs Java {OLDEST} or newer, and {java} is Java {major}", _INSTALL)
    return None


def _major(java: str) -> int | None:
    """17 for `17.0.15`, 8 for `1.8.0_402`; None when it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else None
