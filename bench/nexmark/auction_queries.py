"""Nexmark's queries over auctions and days, q4 to q6, q9 and q13 to q20, each within a window or an interval.

windowpane and Flink run the same text unless a query has two. Nexmark writes them without a bound in time; the bounds
here are the life of an auction, a day, and windows of ten seconds or a minute.
"""

from __future__ import annotations

from typing import Any

from bench.nexmark.generator import Shape
from bench.nexmark.query import Query
from bench.nexmark.windows import BOUNDS

_OPEN = "b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' SECOND"
"""An auction is open for at most ten seconds, which bounds the join."""
_SOLD = f"auctions AS a JOIN bids AS b ON a.id = b.auction AND {_OPEN} AND b.ts <= a.expires"
_SALES = Shape(keys=2_000, per_second=4_900, on_new_auctions=True)
_DAYS = Shape(per_second=2)
_RANKS = {
    "total": "",
    "rank1": " FILTER (WHERE price < 10000)",
    "rank2": " FILTER (WHERE price >= 10000 AND price < 1000000)",
    "rank3": " FILTER (WHERE price >= 1000000)",
}
_COUNTED = {"bids": "*", "bidders": "DISTINCT bidder", "auctions": "DISTINCT auction"}


def _windows(rows: str, *, by: str = "ts", every: str = "'10' SECOND") -> str:
    return f"TABLE(TUMBLE(TABLE {rows}, DESCRIPTOR({by}), INTERVAL {every}))"


def _duckdb_windows(rows: str, *, by: str = "ts", size_s: int = 10) -> str:
    start = f"epoch_us({by}) // {size_s}000000 * {size_s}000000"
    return f"(SELECT *, {start} AS window_start, window_start + {size_s}000000 AS window_end FROM {rows})"


def _counts(*counted: str) -> str:
    return ", ".join(
        f"count({_COUNTED[each]}){condition} AS {rank}_{each}" for each in counted for rank, condition in _RANKS.items()
    )


def _names(*counted: str) -> tuple[str, ...]:
    return tuple(f"{rank}_{each}" for each in counted for rank in _RANKS)


def _alike(name: str, title: str, sql: str, duckdb: str, **more: Any) -> Query:
    """A query whose text is the same in windowpane and in Flink."""
    return Query(name, title, sql, sql, duckdb, **more)


_HOT_ITEMS = _alike(
    "q5-nested",
    "q5 hot items as a query over a query: all auctions with most bids",
    "SELECT c.auction, c.window_start, c.window_end, c.n FROM (SELECT auction, window_start, window_end, count(*) AS n "
    "FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) "
    "GROUP BY auction, window_start, window_end) AS c JOIN (SELECT max(n) AS most, window_start, window_end FROM ("
    "SELECT auction, window_start, window_end, count(*) AS n "
    "FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) "
    "GROUP BY auction, window_start, window_end) GROUP BY window_start, window_end) AS m "
    "ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.n >= m.most",
    "SELECT auction, window_start, window_start + 10000000 AS window_end, count(*) AS n FROM "
    "(SELECT auction, (epoch_us(ts) // 2000000 - behind) * 2000000 AS window_start FROM bids, range(5) AS r(behind)) "
    "GROUP BY auction, window_start QUALIFY rank() OVER (PARTITION BY window_start ORDER BY n DESC) = 1",
    columns=("auction", *BOUNDS, "n"),
    shape=Shape(skew=0.5),
    share=0.5,
)
_BY_CATEGORY = _alike(
    "q4",
    "q4 average winning price per category, of the auctions opened in each 10 s",
    f"WITH sold AS (SELECT a.id, a.category, b.price, a.ts AS opened FROM {_SOLD}) "
    "SELECT category, CAST(avg(final) AS BIGINT) AS final, window_start, window_end FROM ("
    f"SELECT id, category, max(price) AS final, window_start, window_end FROM {_windows('sold', by='opened')} "
    "GROUP BY id, category, window_start, window_end) AS won GROUP BY category, window_start, window_end",
    "SELECT category, (sum(final) // count(*))::BIGINT AS final, window_start, window_end FROM ("
    "SELECT id, category, max(price) AS final, window_start, window_end FROM "
    f"{_duckdb_windows(f'(SELECT a.id, a.category, b.price, a.ts AS opened FROM {_SOLD})', by='opened')} "
    "GROUP BY ALL) GROUP BY ALL",
    columns=("category", "final", *BOUNDS),
    shape=_SALES,
    streams=("auctions", "bids"),
    share=0.1,
)
_BY_SELLER = _alike(
    "q6",
    "q6 average winning price of each seller's last 10 auctions, of those opened in a minute",
    f"WITH sold AS (SELECT a.id, a.seller, b.price, a.ts AS opened FROM {_SOLD}) "
    "SELECT seller, CAST(avg(final) AS BIGINT) AS final, window_start, window_end FROM ("
    "SELECT *, row_number() OVER (PARTITION BY window_start, window_end, seller ORDER BY id DESC) AS place FROM ("
    "SELECT id, seller, max(price) AS final, window_start, window_end FROM "
    + _windows("sold", by="opened", every="'1' MINUTE")
    + " GROUP BY id, seller, window_start, window_end) AS won) AS placed WHERE place <= 10 "
    "GROUP BY seller, window_start, window_end",
    "SELECT seller, (sum(final) // count(*))::BIGINT AS final, window_start, window_end FROM ("
    "SELECT id, seller, max(price) AS final, window_start, window_end FROM "
    + _duckdb_windows(f"(SELECT a.id, a.seller, b.price, a.ts AS opened FROM {_SOLD})", by="opened", size_s=60)
    + " GROUP BY id, seller, window_start, window_end "
    "QUALIFY row_number() OVER (PARTITION BY window_start, seller ORDER BY id DESC) <= 10) GROUP BY ALL",
    columns=("seller", "final", *BOUNDS),
    shape=_SALES,
    streams=("auctions", "bids"),
    share=0.1,
)
_SALE = "a.id, a.item AS item_name, a.seller, a.category, a.ts AS opened, b.bidder, b.price, b.ts AS bid_ts"
_WINNER = "id, item_name, seller, category, bidder, price, bid_ts, window_start, window_end"
_WINNING_BIDS = _alike(
    "q9",
    "q9 winning bid of each auction, of those opened in each 10 s",
    f"WITH sold AS (SELECT {_SALE} FROM {_SOLD}) SELECT {_WINNER} FROM (SELECT *, row_number() OVER "
    "(PARTITION BY window_start, window_end, id ORDER BY price DESC, bid_ts) AS place "
    f"FROM {_windows('sold', by='opened')}) AS placed WHERE place <= 1",
    f"SELECT * REPLACE (epoch_us(bid_ts) AS bid_ts) FROM (SELECT {_WINNER} FROM "
    f"{_duckdb_windows(f'(SELECT {_SALE} FROM {_SOLD})', by='opened')} "
    "QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bid_ts) = 1)",
    columns=tuple(_WINNER.split(", ")),
    shape=_SALES,
    streams=("auctions", "bids"),
    share=0.1,
)
_SIDE_INPUT = _alike(
    "q13",
    "q13 bids with a label from a static table",
    "SELECT auction, bidder, price, ts, s.label FROM bids JOIN side_input AS s ON mod(auction, 10000) = s.id",
    "SELECT auction, bidder, price, epoch_us(ts) AS ts, s.label FROM bids JOIN side_input s ON auction % 10000 = s.id",
    columns=("auction", "bidder", "price", "ts", "label"),
    shape=Shape(keys=20_000),
    tables=("side_input",),
    time="ts",
    share=0.1,
)
_PRICE = "0.908 * price > 1000000 AND 0.908 * price < 50000000"
_HOURS = (
    "CASE WHEN hour(ts) >= 8 AND hour(ts) <= 18 THEN 'dayTime' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'nightTime' "
    "ELSE 'otherTime' END"
)
_CALCULATION = _alike(
    "q14",
    "q14 calculation: bids in a range of prices, with the time of day and the letters c in their URL",
    f"SELECT auction, bidder, 0.908 * price AS reduced, {_HOURS} AS time_of_day, ts, "
    f"char_length(url) - char_length(replace(url, 'c', '')) AS letters FROM bids WHERE {_PRICE}",
    f"SELECT auction, bidder, (0.908 * price)::DECIMAL(23, 3) AS reduced, {_HOURS} AS time_of_day, "
    f"epoch_us(ts) AS ts, length(url) - length(replace(url, 'c', '')) AS letters FROM bids WHERE {_PRICE}",
    columns=("auction", "bidder", "reduced", "time_of_day", "ts", "letters"),
    shape=_DAYS,
    time="ts",
    share=0.25,
)


_IN_DUCKDB = {
    "date_format(ts, 'HH:mm')": "strftime(ts::TIMESTAMP, '%H:%M')",
    "CAST(avg(price) AS BIGINT)": "(sum(price) // count(*))::BIGINT",
}


def _daily(name: str, title: str, *, keys: str = "", more: str = "", counted: tuple[str, ...], columns: str) -> Query:
    """Statistics of each day. `keys` and `more` end with a comma."""
    calls = f"{more}{_counts(*counted)}"
    in_duckdb = calls
    for theirs, duckdb in _IN_DUCKDB.items():
        in_duckdb = in_duckdb.replace(theirs, duckdb)
    every_day = _windows("bids", every="'1' DAY")
    return _alike(
        name,
        title,
        f"SELECT {keys}date_format(window_start, 'yyyy-MM-dd') AS on_day, {calls}, window_end "
        f"FROM {every_day} GROUP BY {keys}window_start, window_end",
        f"SELECT {keys}strftime(make_timestamp(window_start), '%Y-%m-%d') AS on_day, {in_duckdb}, window_end "
        f"FROM {_duckdb_windows('bids', size_s=86_400)} GROUP BY {keys}window_start, window_end",
        columns=(*columns.split(), *_names(*counted), "window_end"),
        shape=_DAYS,
        share=0.25,
    )


_PRICES = (
    "min(price) AS lowest, max(price) AS highest, CAST(avg(price) AS BIGINT) AS average, sum(price) AS total_price, "
)
_LAST_BID = _alike(
    "q18",
    "q18 last bid of each bidder for each auction in 10 s",
    "SELECT auction, bidder, price, channel, url, ts, window_start, window_end FROM (SELECT *, row_number() OVER "
    "(PARTITION BY window_start, window_end, bidder, auction ORDER BY ts DESC, price DESC) AS place "
    f"FROM {_windows('bids')}) AS placed WHERE place <= 1",
    "SELECT auction, bidder, price, channel, url, epoch_us(w.ts) AS ts, window_start, window_end FROM "
    f"{_duckdb_windows('bids')} AS w "
    "QUALIFY row_number() OVER (PARTITION BY window_start, bidder, auction ORDER BY w.ts DESC, price DESC) = 1",
    columns=("auction", "bidder", "price", "channel", "url", "ts", *BOUNDS),
    shape=Shape(keys=50),
    share=0.1,
)
_TOP_TEN = _alike(
    "q19",
    "q19 ten highest bids of each auction in 10 s",
    "SELECT auction, bidder, price, channel, url, ts, place, window_start, window_end FROM (SELECT *, row_number() "
    "OVER (PARTITION BY window_start, window_end, auction ORDER BY price DESC, ts, bidder) AS place "
    f"FROM {_windows('bids')}) AS placed WHERE place <= 10",
    "SELECT auction, bidder, price, channel, url, epoch_us(w.ts) AS ts, "
    "row_number() OVER (PARTITION BY window_start, auction ORDER BY price DESC, w.ts, bidder) AS place, "
    f"window_start, window_end FROM {_duckdb_windows('bids')} AS w QUALIFY place <= 10",
    columns=("auction", "bidder", "price", "channel", "url", "ts", "place", *BOUNDS),
    shape=Shape(),
    share=0.1,
)
_EXPANDED = "b.auction, b.bidder, b.price, b.channel, b.url, {} AS bid_ts, a.item AS item_name, a.seller, a.category"
_WITH_AUCTION = _alike(
    "q20",
    "q20 bids with their auction, of category 10",
    f"SELECT {_EXPANDED.format('b.ts')} FROM bids AS b JOIN auctions AS a ON b.auction = a.id AND {_OPEN} "
    "WHERE a.category = 10",
    f"SELECT {_EXPANDED.format('epoch_us(b.ts)')} FROM bids AS b JOIN auctions AS a ON b.auction = a.id AND {_OPEN} "
    "WHERE a.category = 10",
    columns=("auction", "bidder", "price", "channel", "url", "bid_ts", "item_name", "seller", "category"),
    shape=_SALES,
    streams=("bids", "auctions"),
    time="bid_ts",
    share=0.1,
)

AUCTION_QUERIES = (
    _BY_CATEGORY,
    _HOT_ITEMS,
    _BY_SELLER,
    _WINNING_BIDS,
    _SIDE_INPUT,
    _CALCULATION,
    _daily("q15", "q15 bids, bidders and auctions of each day by price", counted=tuple(_COUNTED), columns="on_day"),
    _daily(
        "q16", "q16 the same for each channel", keys="channel, ", more="max(date_format(ts, 'HH:mm')) AS last_minute, ",
        counted=tuple(_COUNTED), columns="channel on_day last_minute",
    ),
    _daily(
        "q17", "q17 bids and prices of each auction and day", keys="auction, ", more=_PRICES, counted=("bids",),
        columns="auction on_day lowest highest average total_price",
    ),
    _LAST_BID,
    _TOP_TEN,
    _WITH_AUCTION,
)  # fmt: skip
