# ruff: noqa: INP001  # belongs to a script
"""The demo's stream: a minute of bids, up to three seconds out of order, the same ones every time. Some come far too
late, some are broken, some offer nothing.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator

START = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
SECONDS, BIDS_PER_SECOND = 60, 12
BROKEN = (
    '{"bid": "x1", "auction": 3, "price": 12',
    '{"bid": "x2", "auction": 2, "price": 250, "ts": "yesterday, about noon"}',
    '{"bid": "x3", "auction": 4, "price": "a lot", "ts": "2024-05-01T12:00:44Z"}',
)


def some_messages() -> Iterator[tuple[str, str]]:
    """Each message with what sort it is of, in the order in which they are sent."""
    chance = random.Random(20240501)  # noqa: S311  # the same stream every time, and nothing secret
    sent = [(number / BIDS_PER_SECOND + 3 * chance.random(), number) for number in range(SECONDS * BIDS_PER_SECOND)]
    for place, (_, number) in enumerate(sorted(sent)):
        yield "bids", _bid(chance, number)
        if place % 240 == 239:
            yield "broken", BROKEN[place // 240]
            yield "too late", _bid(chance, place // 240 + 1)


def _bid(chance: random.Random, number: int) -> str:
    when = START + dt.timedelta(seconds=number / BIDS_PER_SECOND)
    price = 0 if number % 97 == 0 else chance.randrange(10, 500)
    auction = min(chance.randrange(1, 9), chance.randrange(1, 9))
    ts = f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z"
    return json.dumps({"bid": f"b{number:04}", "auction": auction, "price": price, "ts": ts})
