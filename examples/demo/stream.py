# ruff: noqa: INP001  # belongs to a script
"""Writes the demo's stream: 80 seconds of bids in four files, the same ones every time.

Bids are up to three seconds out of order. Some come twice, some far too late, some are broken, some offer nothing.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from pathlib import Path

START = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
FILES, SECONDS_PER_FILE, BIDS_PER_SECOND = 4, 20, 10
BROKEN = (
    '{"bid": "x1", "auction": 3, "price": 12',
    '{"bid": "x2", "auction": 2, "price": 250, "ts": "yesterday, about noon"}',
    '{"bid": "x3", "auction": 4, "price": "a lot", "ts": "2024-05-01T12:00:44Z"}',
)


def write_stream(folder: Path) -> dict[str, int]:
    """Write all files into `folder`; gives how many rows of each sort they hold."""
    folder.mkdir(parents=True)
    chance = random.Random(20240501)  # noqa: S311  # the same stream every time, and nothing secret
    counts = {"bids": 0, "twice": 0, "too late": 0, "broken": 0}
    for number in range(FILES):
        bids = [_bid(chance, number, place) for place in range(SECONDS_PER_FILE * BIDS_PER_SECOND)]
        again = chance.sample(bids, 5)
        late = [_bid(chance, 0, place) | {"bid": f"late-{number}-{place}"} for place in range(1, number + 1)]
        broken = list(BROKEN[number : number + 1])
        lines = [json.dumps(bid) for bid in bids + again]
        chance.shuffle(lines)
        lines = sorted(lines, key=lambda line: _seen(json.loads(line)["bid"], chance))
        _write(folder / f"bids-{number + 1}.json", [*lines, *map(json.dumps, late), *broken], number)
        counts["bids"] += len(bids)
        counts["twice"] += len(again)
        counts["too late"] += len(late)
        counts["broken"] += len(broken)
    return counts


def _bid(chance: random.Random, file: int, place: int) -> dict[str, object]:
    number = file * SECONDS_PER_FILE * BIDS_PER_SECOND + place
    when = START + dt.timedelta(seconds=number / BIDS_PER_SECOND)
    price = 0 if number % 97 == 0 else chance.randrange(10, 500)
    auction = min(chance.randrange(1, 13), chance.randrange(1, 13))
    return {
        "bid": f"b{number:04}",
        "auction": auction,
        "price": price,
        "ts": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z",
    }


def _seen(bid: object, chance: random.Random) -> float:
    """When a bid arrives: up to three seconds after it was made."""
    return int(str(bid)[1:]) / BIDS_PER_SECOND + 3 * chance.random()


def _write(path: Path, lines: list[str], order: int) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Spark reads files in the order of their modification times, and what is late depends on that order.
    modified = START.timestamp() + 60 * order
    os.utime(path, (modified, modified))
