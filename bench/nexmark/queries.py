"""The queries in windowpane's SQL, in Flink SQL and, for the limit, in DuckDB's; Spark's API has a module of its own.

All spellings of a query give the same columns, `window_end` among them.
"""

from __future__ import annotations

from dataclasses import replace

from bench.nexmark.auction_queries import AUCTION_QUERIES
from bench.nexmark.generator import Shape
from bench.nexmark.query import Query
from bench.nexmark.windows import BOUNDS, CALLS, Window, duckdb_panes


def plain(
    name: str, title: str, window: Window, shape: Shape, *, share: float = 1.0, over: tuple[float, float] | None = None
) -> Query:
    return Query(
        name, title, window.windowpane(), window.flink(), window.duckdb(), window.columns, shape, share=share,
        over_spark=over[0] if over else None, over_flink=over[1] if over else None, window=window,
    )  # fmt: skip


_HOT_ITEMS = Query(
    "q5",
    "q5 hot items: hop 10 s/2 s, the auction with most bids",
    windowpane="SELECT auction, window_start, window_end, count(*) AS n FROM bids "
    "GROUP BY hoppingwindow('ss', 10, 2), auction ORDER BY n DESC, auction LIMIT 1",
    flink="SELECT auction, window_start, window_end, n FROM ("
    "SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, auction) AS place FROM ("
    "SELECT auction, window_start, window_end, count(*) AS n "
    "FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) "
    "GROUP BY auction, window_start, window_end)) WHERE place <= 1",
    duckdb="SELECT arg_min(auction, (-n, auction)) AS auction, window_start, window_end, max(n) AS n "
    f"FROM ({duckdb_panes('auction', 10_000_000, 2_000_000)}) GROUP BY window_start, window_end",
    columns=("auction", *BOUNDS, "n"),
    shape=Shape(skew=0.5),
    share=0.5,
)
_HIGHEST_BID = Query(
    "q7",
    "q7 highest bid: tumbling 10 s, the bid with the highest price",
    windowpane="SELECT max_by(auction, price) AS auction, max_by(bidder, price) AS bidder, max(price) AS price, "
    "window_start, window_end FROM bids GROUP BY tumblingwindow('ss', 10)",
    flink="SELECT auction, bidder, price, window_start, window_end FROM ("
    "SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS place "
    "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE place <= 1",
    duckdb="SELECT arg_max(auction, price) AS auction, arg_max(bidder, price) AS bidder, max(price) AS price, "
    "window_start, window_start + 10000000 AS window_end "
    "FROM (SELECT *, epoch_us(ts) // 10000000 * 10000000 AS window_start FROM bids) GROUP BY window_start",
    columns=("auction", "bidder", "price", *BOUNDS),
)
_TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
_NEW_USERS = Query(
    "q8",
    "q8 new users: who registered and opened an auction in the same 10 s",
    windowpane="SELECT person, max(name) AS name, window_start, window_end FROM ("
    "SELECT id AS person, name, 1 AS registered, 0 AS opened, ts FROM persons UNION ALL "
    "SELECT seller AS person, CAST(NULL AS STRING) AS name, 0 AS registered, 1 AS opened, ts FROM auctions) AS both "
    "GROUP BY tumblingwindow('ss', 10), person HAVING sum(registered) > 0 AND sum(opened) > 0",
    flink="SELECT p.id AS person, p.name, p.window_start, p.window_end FROM "
    f"(SELECT id, name, window_start, window_end FROM {_TUMBLE.format('persons')} "
    "GROUP BY id, name, window_start, window_end) p JOIN "
    f"(SELECT seller, window_start, window_end FROM {_TUMBLE.format('auctions')} "
    "GROUP BY seller, window_start, window_end) a "
    "ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end",
    duckdb="SELECT p.id AS person, p.name, p.w * 10000000 AS window_start, (p.w + 1) * 10000000 AS window_end FROM "
    "(SELECT id, name, epoch_us(ts) // 10000000 AS w FROM persons) p SEMI JOIN "
    "(SELECT seller, epoch_us(ts) // 10000000 AS w FROM auctions) a ON p.id = a.seller AND p.w = a.w",
    columns=("person", "name", *BOUNDS),
    shape=Shape(keys=20_000),
    share=0.5,
    streams=("persons", "auctions"),
)
_WINDOW_JOIN = Query(
    "window-join",
    "window join 10 s, 1 k keys, 10 rows a side per key",
    windowpane="SELECT o.item, o.price, a.price AS asked, window_start, window_end "
    "FROM offers AS o JOIN asks AS a ON o.item = a.item WINDOW TUMBLING (SIZE 10 SECONDS)",
    flink="SELECT o.item, o.price, a.price AS asked, o.window_start, o.window_end FROM "
    f"(SELECT * FROM {_TUMBLE.format('offers')}) o JOIN (SELECT * FROM {_TUMBLE.format('asks')}) a "
    "ON o.item = a.item AND o.window_start = a.window_start AND o.window_end = a.window_end",
    duckdb="SELECT o.item, o.price, a.price AS asked, o.w * 10000000 AS window_start, (o.w + 1) * 10000000 "
    "AS window_end FROM (SELECT *, epoch_us(ts) // 10000000 AS w FROM offers) o JOIN "
    "(SELECT *, epoch_us(ts) // 10000000 AS w FROM asks) a ON o.item = a.item AND o.w = a.w",
    columns=("item", "price", "asked", *BOUNDS),
    shape=Shape(per_second=2_000),
    share=0.3,
    shares={"spark": 0.25},
    streams=("offers", "asks"),
    over_spark=3,
    over_flink=1,
)
_INTERVAL_JOIN = Query(
    "interval-join",
    "interval join within 5 s before and after, 1 k keys, 10 partners a row",
    windowpane="SELECT o.item, o.price, a.price AS asked, o.ts AS window_end FROM offers AS o JOIN asks AS a "
    "ON o.item = a.item AND a.ts BETWEEN o.ts - INTERVAL 5 SECONDS AND o.ts + INTERVAL 5 SECONDS",
    flink="SELECT o.item, o.price, a.price AS asked, o.ts AS window_end FROM offers o JOIN asks a "
    "ON o.item = a.item AND a.ts BETWEEN o.ts - INTERVAL '5' SECOND AND o.ts + INTERVAL '5' SECOND",
    duckdb="SELECT o.item, o.price, a.price AS asked, epoch_us(o.ts) AS window_end FROM offers o JOIN asks a "
    "ON o.item = a.item AND a.ts BETWEEN o.ts - INTERVAL 5 SECOND AND o.ts + INTERVAL 5 SECOND",
    columns=("item", "price", "asked", "window_end"),
    shape=Shape(per_second=2_000),
    share=0.3,
    shares={"spark": 0.05},
    streams=("offers", "asks"),
    over_spark=3,
    over_flink=1,
)
_NEW_USERS_JOINED = replace(
    _NEW_USERS,
    name="q8-join",
    title="q8 new users, as a window join",
    windowpane="SELECT p.id AS person, p.name, window_start, window_end FROM persons AS p "
    "LEFT SEMI JOIN auctions AS a ON p.id = a.seller WINDOW TUMBLING (SIZE 10 SECONDS)",
)
_SLIDING = Query(
    "sliding",
    "sliding 10 s, 1 k keys: a window for every row",
    windowpane=f"SELECT auction, trigger_time AS window_end, {CALLS} FROM bids "
    "GROUP BY slidingwindow('ss', 10) OVER (PARTITION BY auction)",
    flink="SELECT auction, ts AS window_end, "
    "count(*) OVER w AS n, sum(price) OVER w AS total, max(price) OVER w AS top FROM bids WINDOW w AS "
    "(PARTITION BY auction ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW)",
    duckdb="SELECT auction, us AS window_end, "
    "count(*) OVER w AS n, sum(price) OVER w AS total, max(price) OVER w AS top "
    "FROM (SELECT auction, epoch_us(ts) AS us, price FROM bids) "
    "WINDOW w AS (PARTITION BY auction ORDER BY us RANGE BETWEEN 10000000 PRECEDING AND CURRENT ROW)",
    columns=("auction", "window_end", "n", "total", "top"),
    share=0.1,
    shares={"flink": 0.25},
)

_CLOCK_S = 1
_PROCESSING_TIME = Query(
    "q12",
    f"q12 bids per bidder in {_CLOCK_S} s of processing time",
    windowpane="SELECT bidder, window_start, window_end, count(*) AS n FROM bids "
    f"GROUP BY tumblingwindow('ss', {_CLOCK_S}), bidder",
    flink="SELECT bidder, window_start, window_end, count(*) AS n "
    f"FROM TABLE(TUMBLE(TABLE clocked, DESCRIPTOR(clock), INTERVAL '{_CLOCK_S}' SECOND)) "
    "GROUP BY bidder, window_start, window_end",
    duckdb="SELECT bidder, count(*) AS n FROM bids GROUP BY bidder",
    columns=("bidder", *BOUNDS, "n"),
    clocked_s=_CLOCK_S,
)

_TUMBLING, _SPARSE, _QUIET = Window("tumbling", 10), Shape(keys=10_000, per_second=10_000), Shape(per_second=100)
_KAFKA = replace(
    plain("kafka-tumbling", "Kafka JSON, tumbling 10 s, 1 k keys", _TUMBLING, Shape(), share=0.3, over=(2.5, 2)),
    source="kafka",
)
_KAFKA_AVRO = replace(
    _KAFKA, name="kafka-avro", title="Kafka Avro, tumbling 10 s, 1 k keys", value_format="avro",
    over_spark=None, over_flink=None,
)  # fmt: skip
_KAFKA_PROTOBUF = replace(
    _KAFKA_AVRO, name="kafka-protobuf", title="Kafka Protobuf, tumbling 10 s, 1 k keys", value_format="protobuf"
)
_OVERLAPPING = replace(
    plain("hop-60-1", "hop 60 s/1 s, 1 k keys", Window("hopping", 60, 1), Shape(), share=0.75, over=(50, 4)),
    shares={"spark": 0.2},
    spark_batch_rows=1_000_000,
)
_SESSIONS = replace(
    plain("session", "session 30 s, 1 k keys", Window("session", 30), _QUIET, share=0.75, over=(6, 4)),
    shares={"spark": 0.4, "flink": 0.4},
)
QUERIES: dict[str, Query] = {
    query.name: query
    for query in (
        plain("tumbling", "tumbling 10 s, 1 k keys", _TUMBLING, Shape(), share=3, over=(4, 4)),
        plain("tumbling-10k", "tumbling 10 s, 10 k keys, 10 rows a group", _TUMBLING, _SPARSE, share=1.5, over=(10, 4)),
        replace(
            plain("hop-60-5", "hop 60 s/5 s, 1 k keys", Window("hopping", 60, 5), Shape(), share=1.5, over=(8, 4)),
            shares={"spark": 0.5, "flink": 0.5},
        ),
        _OVERLAPPING,
        _SESSIONS,
        _KAFKA,
        _KAFKA_AVRO,
        _KAFKA_PROTOBUF,
        _HOT_ITEMS,
        _HIGHEST_BID,
        _NEW_USERS,
        _NEW_USERS_JOINED,
        _WINDOW_JOIN,
        _INTERVAL_JOIN,
        plain("q11", "q11 user sessions: 10 s, 1 k bidders", Window("session", 10, key="bidder"), _QUIET, share=0.3),
        _PROCESSING_TIME,
        _SLIDING,
        *AUCTION_QUERIES,
    )
}
