"""`windowpane bundle`: make the archive for executors, and say how to hand it to Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import windowpane
from windowpane.bundling import LAUNCHER, Bundle, make_bundle

_FOLDER = "windowpane"
"""Where Spark unpacks the archive: what follows the # in the settings below."""


def bundle(packages: Sequence[str], output: Path | None, *, as_json: bool) -> str:
    """Make the archive if there is none for these files. Returns what the command prints."""
    made = make_bundle(packages, output)
    if as_json:
        document = made.document() | {"settings": _settings(made), "application": str(_application())}
        return json.dumps(document, indent=2)
    verb = "wrote" if made.is_new else "unchanged:"
    settings = " \\\n    ".join(f"--conf {name}={value}" for name, value in _settings(made).items())
    return "\n".join([
        f"{verb} {made.path} ({made.size / 1e6:.0f} MB)",
        f"runs on {made.platform} with {made.libc.replace('-', ' ')} or newer; contains Python {made.python}",
        "windowpane run sends it by itself if the master is not local. For a driver in the cluster:",
        f"  spark-submit --deploy-mode cluster --files pipeline.toml \\\n    {settings} \\",
        f"    {_application()} run pipeline.toml",
    ])  # fmt: skip


def _settings(made: Bundle) -> dict[str, str]:
    return {
        "spark.archives": f"{made.path}#{_FOLDER}",
        "spark.pyspark.python": f"./{_FOLDER}/{LAUNCHER}",
        "spark.python.daemon.module": "windowpane.spark.daemon",
    }


def _application() -> Path:
    return Path(windowpane.__file__).with_name("application.py")
