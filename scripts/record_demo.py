"""Runs the demo and writes its output to docs/demo.md: `make demo-recording`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "demo.md"
HEAD = """# The demo, recorded

`make demo` writes 80 seconds of bids into four files and runs `examples/demo/pipeline.toml` over
them. Some bids are out of order, some are duplicates, some are late and some are corrupt. This is
its output; `make demo-recording` records it.

```text
$ make demo
"""


def main() -> int:
    demo = [sys.executable, str(ROOT / "examples" / "demo" / "demo.py")]
    ran = subprocess.run(demo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603
    if ran.returncode:
        sys.stderr.write(ran.stdout)
        return ran.returncode
    PAGE.write_text(f"{HEAD}{_without_timing(ran.stdout)}```\n", encoding="utf-8")
    return 0


def _without_timing(output: str) -> str:
    """Leave out the progress lines, which say how long things took, and padding at the ends of lines."""
    lines = [line.rstrip() for line in output.strip("\n").split("\n")]
    kept = [line for line in lines if not re.search(r" rows, [\d,]+/s · |^starting Spark", line)]
    return "".join(f"{line}\n" for line in kept)


if __name__ == "__main__":
    sys.exit(main())
