"""What the figures were taken on, and with which versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path


def describe() -> dict[str, str]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "processor": f"{os.cpu_count()} × {_first('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_first('/proc/meminfo', 'MemTotal').split()[0]) / 1024**2:.0f} GB",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "java": _java(),
        **{name: importlib.metadata.version(name) for name in ("pyspark", "pyarrow", "duckdb", "windowpane")},
        "load": f"{os.getloadavg()[0]:.1f} before the run",
    }


def _first(file: str, key: str) -> str:
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return "unknown"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    return (shown.stderr.splitlines() or ["unknown"])[0]
