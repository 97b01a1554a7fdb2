"""The auction site of Nexmark as columns: persons, auctions and bids, from a seed, in any shape and number.

Offers and asks are two streams with the same keys, for joins in which each row has several partners.

A stream is made in chunks, each from its own number alone, so that any part of it can be made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Stream: TypeAlias = Literal["bids", "persons", "auctions", "offers", "asks"]
Table: TypeAlias = Literal["side_input"]
Ints: TypeAlias = npt.NDArray[np.int64]

BEGIN_MS = 1_700_000_000_000
FLUSH_KEY = -1
TIME = pa.timestamp("us", "UTC")
COLUMNS: dict[Stream, str] = {
    "bids": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP",
    "persons": "id BIGINT, name STRING, city STRING, ts TIMESTAMP",
    "auctions": "id BIGINT, item STRING, seller BIGINT, category BIGINT, initial_bid BIGINT, ts TIMESTAMP, "
    "expires TIMESTAMP",
    "offers": "item BIGINT, price BIGINT, ts TIMESTAMP",
    "asks": "item BIGINT, price BIGINT, ts TIMESTAMP",
}
"""As Spark's DDL."""
TABLE_COLUMNS: dict[Table, str] = {"side_input": "id BIGINT, label STRING"}
SHARES: dict[Stream, int] = {"persons": 1, "auctions": 3, "bids": 46, "offers": 25, "asks": 25}
"""Of 50 events, as Nexmark has them; offers and asks are as many."""
LONGEST_MS = 10_000
"""Auctions expire at most this long after they open."""
IN_TOPIC = "auction BIGINT, price BIGINT, ts TIMESTAMP"
"""Of the bids in a topic, the columns that are declared: those that the query uses."""

_CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple", *(f"channel-{n}" for n in range(1000))])
_URLS = np.array([f"https://www.nexmark.com/item.htm?query=1&channel_id={n}" for n in range(1000)])
_CITIES = np.array(["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle"])
_FIRST = np.array(["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"])
_SEEDS: dict[Stream, int] = {"bids": 0, "persons": 1, "auctions": 2, "offers": 3, "asks": 4}


@dataclass(frozen=True)
class Shape:
    """What a stream is like. Times are whole milliseconds, the finest that all engines tell apart."""

    keys: int = 1_000
    """Auctions that get bids; also the number of bidders, and of sellers who are active at a time."""
    per_second: int = 20_000
    """Rows per second of event time."""
    out_of_order: float = 1.0
    """Share of the rows that come after rows of a later time."""
    disorder_ms: int = 2_000
    """They are behind by less than this."""
    late: float = 0.0
    """Share of the rows that are behind by more, and so behind a watermark with that lag."""
    late_ms: int = 60_000
    """Late rows are behind by up to this much more."""
    skew: float = 0.0
    """Zipf's exponent: 0 gives every key the same share, 1 gives the first of 1,000 keys an eighth of all rows."""
    on_new_auctions: bool = False
    """Bids are for the last `keys` auctions of that stream, and not always for the same ones; sellers stay."""
    seed: int = 7


def chunk(stream: Stream, shape: Shape, first: int, count: int) -> pa.Table:
    """Rows `first` to `first + count` of the stream."""
    random = np.random.default_rng([shape.seed, _SEEDS[stream], first])
    time_ms = _times_ms(random, shape, first, count)
    if stream == "bids":
        columns = _bids(random, shape, first, count)
    elif stream in ("offers", "asks"):
        columns = {"item": _skewed(random, shape, count), "price": _prices(random, count)}
    elif stream == "persons":
        columns = _persons(random, np.arange(first, first + count))
    else:
        columns = _auctions(random, shape, np.arange(first, first + count))
    rows = pa.table({**columns, "ts": _timestamps(time_ms)})
    if stream == "auctions":
        expires_ms = time_ms + random.integers(1_000, LONGEST_MS + 1, count)
        rows = rows.append_column("expires", _timestamps(expires_ms))
    return rows


def static_table(table: Table) -> pa.Table:
    """A label for each id; every tenth id has none."""
    assert table == "side_input"
    ids = np.array([number for number in range(10_000) if number % 10])
    return pa.table({"id": ids, "label": [f"label-{number}" for number in ids]})


def flush_row(stream: Stream, after_rows: int, shape: Shape) -> pa.Table:
    """One row an hour after all others. With it every window of theirs is complete, for any engine."""
    row = chunk(stream, shape, after_rows, 1)
    time_ms = np.array([flush_time_us(after_rows, shape) // 1000])
    for name in ("auction", "bidder", "id", "seller", "item"):
        if name in row.column_names and row.schema.field(name).type == pa.int64():
            row = row.set_column(row.column_names.index(name), name, pa.array([FLUSH_KEY], pa.int64()))
    return row.set_column(row.column_names.index("ts"), "ts", _timestamps(time_ms))


def flush_time_us(after_rows: int, shape: Shape) -> int:
    return (BEGIN_MS + after_rows * 1000 // shape.per_second + 3_600_000) * 1000


def _times_ms(random: np.random.Generator, shape: Shape, first: int, count: int) -> Ints:
    due = BEGIN_MS + np.arange(first, first + count) * 1000 // shape.per_second + shape.disorder_ms
    behind = np.where(random.random(count) < shape.out_of_order, random.integers(0, shape.disorder_ms, count), 0)
    if shape.late:
        lateness = shape.disorder_ms + random.integers(1, shape.late_ms, count)
        behind = np.where(random.random(count) < shape.late, lateness, behind)
    times_ms: Ints = due - behind
    return times_ms


def _timestamps(time_ms: Ints) -> pa.Array:
    return pa.array(time_ms * 1000, TIME)


def _skewed(random: np.random.Generator, shape: Shape, count: int) -> Ints:
    if not shape.skew:
        return random.integers(0, shape.keys, count)
    weights = np.cumsum(1 / np.arange(1, shape.keys + 1) ** shape.skew)
    picked: Ints = np.searchsorted(weights, random.random(count) * weights[-1]).astype(np.int64)
    return picked


def _prices(random: np.random.Generator, count: int) -> Ints:
    """Between 1 and 1,000,000 dollars in cents, as likely between 1 and 10 as between 100 and 1,000."""
    return np.rint(100 * 10 ** (6 * random.random(count))).astype(np.int64)


def _picked(random: np.random.Generator, words: npt.NDArray[np.str_], count: int) -> pa.Array:
    indices = pa.array(random.integers(0, len(words), count, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(words)).cast(pa.string())


def _bids(random: np.random.Generator, shape: Shape, first: int, count: int) -> dict[str, object]:
    auctions = _skewed(random, shape, count)
    if shape.on_new_auctions:
        opened = np.arange(first, first + count) * SHARES["auctions"] // SHARES["bids"]
        auctions = np.maximum(opened - auctions, 0)
    return {
        "auction": auctions,
        "bidder": _skewed(random, shape, count),
        "price": _prices(random, count),
        "channel": _picked(random, _CHANNELS, count),
        "url": _picked(random, _URLS, count),
    }


def _persons(random: np.random.Generator, ids: Ints) -> dict[str, object]:
    return {"id": ids, "name": _picked(random, _FIRST, len(ids)), "city": _picked(random, _CITIES, len(ids))}


def _auctions(random: np.random.Generator, shape: Shape, ids: Ints) -> dict[str, object]:
    return {
        "id": ids,
        "item": _picked(random, _URLS, len(ids)),
        "seller": _sellers(random, shape, ids),
        "category": random.integers(10, 15, len(ids)),
        "initial_bid": _prices(random, len(ids)),
    }


def _sellers(random: np.random.Generator, shape: Shape, ids: Ints) -> Ints:
    """Three auctions for each person; sellers are among the last `keys` who have registered, or always the same."""
    sellers = random.integers(0, shape.keys, len(ids))
    return sellers if shape.on_new_auctions else np.maximum(ids // 3 - sellers, 0)
