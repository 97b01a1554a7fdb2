# ruff: noqa: INP001, T201  # a script, which prints
"""What `make demo-ui` runs: bids of three regions that never end, and a pipeline over them with its live page.

Bids are out of order. Some come twice, some far too late, some are broken, some offer nothing. Asia is half a minute
behind the others, and now and then it stops for a while.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WINDOWPANE = Path(sys.executable).with_name("windowpane")
BEHIND_SECONDS = {"eu": 0, "us": 1, "asia": 30}
BIDS_PER_SECOND = {"eu": 60, "us": 40, "asia": 20}
KEPT_FILES = 600
BROKEN = ('{"bid": "x", "auction": 3, "price": 12', '{"bid": "x", "auction": 2, "price": 9, "ts": "about noon"}')


def main() -> int:
    for leftover in ("data", "state", "out"):
        shutil.rmtree(HERE / leftover, ignore_errors=True)
    for region in BEHIND_SECONDS:
        (HERE / "data" / region).mkdir(parents=True)
    ended = threading.Event()
    feeder = threading.Thread(target=feed, args=(ended,), daemon=True)
    feeder.start()
    print("Bids of three regions flow into examples/live/data. Ctrl-C ends the demo.", flush=True)
    try:
        command = [str(WINDOWPANE), "run", "--ui", *sys.argv[1:]]
        return subprocess.run(command, cwd=HERE, check=False).returncode  # noqa: S603  # our own command
    except KeyboardInterrupt:
        return 0
    finally:
        ended.set()
        feeder.join()


def feed(ended: threading.Event) -> None:
    """A file for each region each second."""
    chance = random.Random()  # noqa: S311  # nothing secret
    for second in itertools.count():
        for region in BEHIND_SECONDS:
            if region != "asia" or second % 90 < 75:
                write(HERE / "data" / region, second, bids(chance, region, second))
        if ended.wait(1.0):
            return


def bids(chance: random.Random, region: str, second: int) -> list[str]:
    """The lines of a file, with everything wrong that streams have."""
    now = time.time() - BEHIND_SECONDS[region]
    lines = [bid(chance, region, now - 2 * chance.random(), f"{second}-{at}") for at in range(BIDS_PER_SECOND[region])]
    lines += lines[:1] if chance.random() < 0.4 else []
    if second > 90 and chance.random() < 0.2:
        lines.append(bid(chance, region, now - chance.randrange(60, 600), f"{second}-late"))
    if chance.random() < 0.05:
        lines.append(chance.choice(BROKEN))
    chance.shuffle(lines)
    return lines


def bid(chance: random.Random, region: str, at: float, number: str) -> str:
    auction = min(chance.randrange(1, 13), chance.randrange(1, 13))
    price = 0 if chance.random() < 0.03 else chance.randrange(10, 500)
    when = dt.datetime.fromtimestamp(at, dt.UTC)
    return json.dumps({
        "bid": f"{region}-{number}", "region": region, "auction": auction, "price": price,
        "ts": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z",
    })  # fmt: skip


def write(folder: Path, second: int, lines: list[str]) -> None:
    """A file appears whole; the oldest is removed, so that the demo can run for days."""
    draft = folder / f".{second}.tmp"
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.rename(folder / f"bids-{second:09}.json")
    (folder / f"bids-{second - KEPT_FILES:09}.json").unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
