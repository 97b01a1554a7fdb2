# ruff: noqa: INP001, T201  # a script, which prints
"""What `make demo` shows: a stream with troubles, what the pipeline will do with it, the run, the rows set aside."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from stream import write_stream

HERE = Path(__file__).resolve().parent
WINDOWPANE = Path(sys.executable).with_name("windowpane")


def main() -> int:
    for leftover in ("data", "state", "out"):
        shutil.rmtree(HERE / leftover, ignore_errors=True)
    counts = write_stream(HERE / "data" / "bids")
    told = ", ".join(f"{count:,} {sort}" for sort, count in counts.items())
    say(f"A stream of {sum(counts.values()):,} rows in four files: {told}.")
    for arguments in (["check"], ["explain", "--physical"], ["run", "--drain"]):
        code = windowpane(*arguments)
        if code:
            return code
    show_side_rows()
    say("$ windowpane ui examples/demo/pipeline.toml    # all this in a browser; make demo-ui: a stream that flows")
    return 0


def windowpane(*arguments: str) -> int:
    say(f"$ windowpane {' '.join(arguments)}")
    return subprocess.run([WINDOWPANE, *arguments], cwd=HERE, check=False).returncode  # noqa: S603  # our own command


def show_side_rows() -> None:
    """One record of each reason, and how many there are."""
    files = sorted((HERE / "out" / "aside").glob("*.json"))
    records = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    say(f"$ cat out/aside/*.json    # {len(records)} records; the first of each reason, shortened")
    reasons = Counter((record["kind"], record["reason"]) for record in records)
    for (kind, reason), count in sorted(reasons.items()):
        first = next(record for record in records if (record["kind"], record["reason"]) == (kind, reason))
        print(f"{count:4}  {kind}: {reason}\n      {json.dumps(first['original_event'])}")


def say(text: str) -> None:
    print(f"\n\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
