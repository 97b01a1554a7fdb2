"""The queries in Spark's own API: Structured Streaming's windows as a user would write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.nexmark.queries import QUERIES
from bench.nexmark.query import Query
from bench.nexmark.windows import Window

Frames = Mapping[str, DataFrame]
_NO_OVER = "Structured Streaming has no window functions over rows of a stream"
_NO_DISTINCT = "Structured Streaming has no distinct aggregates"
_NO_JAR = "Spark reads {0} by a jar of its own, which is not published for this version"
CANNOT = {
    "kafka-avro": _NO_JAR.format("Avro"),
    "kafka-protobuf": _NO_JAR.format("Protobuf"),
    "sliding": "Structured Streaming has no window per row",
    "q5-nested": "Structured Streaming cannot join a stream's results with their own aggregate",
    **dict.fromkeys(("q6", "q9", "q18", "q19"), _NO_OVER),
    **dict.fromkeys(("q15", "q16"), _NO_DISTINCT),
}
"""Queries without a spelling, and why."""
ONE_MS = "INTERVAL '0.001' SECOND"
"""Spark lets sessions merge that only touch, as Flink does: see Window.flink_session."""


def spark_query(query: Query, frames: Frames) -> DataFrame:
    """`frames` by stream, watermarked where they are streams in event time."""
    if query.window is not None:
        return _windowed(frames["bids"], query.window)
    return _SPELLINGS[query.name](frames)


def _windowed(bids: DataFrame, window: Window) -> DataFrame:
    name, end = ("session_window", f"end + {ONE_MS}") if window.kind == "session" else ("window", "end")
    grouped = bids.groupBy(_column(window), window.key)
    counted = grouped.agg(F.count("*").alias("n"), F.sum("price").alias("total"), F.max("price").alias("top"))
    return counted.selectExpr(
        window.key, f"{name}.start AS window_start", f"{name}.{end} AS window_end", "n", "total", "top"
    )


def _column(window: Window) -> Column:
    size = f"{window.size_s} seconds"
    if window.kind == "session":
        return F.session_window("ts", f"{window.size_s * 1000 - 1} milliseconds")
    return F.window("ts", size, f"{window.slide_s} seconds") if window.kind == "hopping" else F.window("ts", size)


def _hot_items(frames: Frames) -> DataFrame:
    """Two aggregations in a row: bids per auction and window, then the most of each window."""
    counted = frames["bids"].groupBy(F.window("ts", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("n"))
    top = counted.groupBy("window").agg(F.max(F.struct("n", (-F.col("auction")).alias("minus"))).alias("top"))
    return top.selectExpr(
        "-top.minus AS auction", "window.start AS window_start", "window.end AS window_end", "top.n AS n"
    )


def _highest_bid(frames: Frames) -> DataFrame:
    highest = frames["bids"].groupBy(F.window("ts", "10 seconds")).agg(
        F.max_by("auction", "price").alias("auction"),
        F.max_by("bidder", "price").alias("bidder"),
        F.max("price").alias("price"),
    )  # fmt: skip
    return highest.selectExpr("auction", "bidder", "price", "window.start AS window_start", "window.end AS window_end")


def _new_users(frames: Frames) -> DataFrame:
    """A union with one aggregation: Spark keeps every row of both sides for a join of streams."""
    registered = frames["persons"].selectExpr("id AS person", "name", "1 AS registered", "0 AS opened", "ts")
    opened = frames["auctions"].selectExpr(
        "seller AS person", "CAST(NULL AS STRING) AS name", "0 AS registered", "1 AS opened", "ts"
    )
    both = registered.unionByName(opened).groupBy(F.window("ts", "10 seconds"), "person").agg(
        F.max("name").alias("name"), F.sum("registered").alias("registered"), F.sum("opened").alias("opened")
    )  # fmt: skip
    new = both.where("registered > 0 AND opened > 0")
    return new.selectExpr("person", "name", "window.start AS window_start", "window.end AS window_end")


def _window_join(frames: Frames) -> DataFrame:
    """Spark joins rows of the same window by an equality of windows, and drops its state by their ends."""
    offers = frames["offers"].withColumn("w", F.window("ts", "10 seconds")).alias("o")
    asks = frames["asks"].withColumn("w", F.window("ts", "10 seconds")).alias("a")
    pairs = offers.join(asks, F.expr("o.item = a.item AND o.w = a.w"))
    return pairs.selectExpr(
        "o.item", "o.price", "a.price AS asked", "o.w.start AS window_start", "o.w.end AS window_end"
    )


def _interval_join(frames: Frames) -> DataFrame:
    near = "a.ts BETWEEN o.ts - INTERVAL 5 SECONDS AND o.ts + INTERVAL 5 SECONDS"
    pairs = frames["offers"].alias("o").join(frames["asks"].alias("a"), F.expr(f"o.item = a.item AND {near}"))
    return pairs.selectExpr("o.item", "o.price", "a.price AS asked", "o.ts AS window_end")


def _sold(frames: Frames) -> DataFrame:
    near = "b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS"
    return frames["auctions"].alias("a").join(frames["bids"].alias("b"), F.expr(f"a.id = b.auction AND {near}"))


def _by_category(frames: Frames) -> DataFrame:
    """A join of streams and two aggregations; the window is that of the auction's time."""
    sold = _sold(frames).where("b.ts <= a.expires").selectExpr("a.id", "a.category", "b.price", "a.ts AS opened")
    won = sold.groupBy(F.window("opened", "10 seconds"), "id", "category").agg(F.max("price").alias("final"))
    means = won.groupBy("window", "category").agg(F.avg("final").cast("bigint").alias("final"))
    return means.selectExpr("category", "final", "window.start AS window_start", "window.end AS window_end")


def _with_label(frames: Frames) -> DataFrame:
    labels = F.broadcast(frames["side_input"]).alias("s")
    labelled = frames["bids"].join(labels, F.expr("auction % 10000 = s.id"))
    return labelled.select("auction", "bidder", "price", "ts", "label")


def _same_text(name: str) -> Callable[[Frames], DataFrame]:
    """A query without window or join, whose text Spark takes as it is."""

    def run(frames: Frames) -> DataFrame:
        return frames["bids"].sparkSession.sql(QUERIES[name].windowpane.replace("bids", "{bids}"), bids=frames["bids"])

    return run


def _statistics(frames: Frames) -> DataFrame:
    """The text of the query, with Spark's spelling of its window."""
    sql = QUERIES["q17"].windowpane
    columns = sql.removeprefix("SELECT ").split(" FROM TABLE(")[0]
    calls = columns.replace("window_start", "w.start").replace("window_end", "w.end AS window_end")
    windowed = frames["bids"].withColumn("w", F.window("ts", "1 day"))
    return windowed.sparkSession.sql(f"SELECT {calls} FROM {{bids}} GROUP BY auction, w", bids=windowed)


def _with_auction(frames: Frames) -> DataFrame:
    return _sold(frames).where("a.category = 10").selectExpr(
        "b.auction", "b.bidder", "b.price", "b.channel", "b.url", "b.ts AS bid_ts", "a.item AS item_name", "a.seller",
        "a.category",
    )  # fmt: skip


def _by_the_clock(frames: Frames) -> DataFrame:
    """The time of the micro-batch, which is what Spark gives for the current time, is its rows' time."""
    clocked = frames["bids"].select("bidder", F.current_timestamp().alias("clock")).withWatermark("clock", "0 seconds")
    counted = clocked.groupBy(F.window("clock", f"{QUERIES['q12'].clocked_s} seconds"), "bidder").count()
    return counted.selectExpr("bidder", "window.start AS window_start", "window.end AS window_end", "`count` AS n")


_SPELLINGS: dict[str, Callable[[Frames], DataFrame]] = {
    "q5": _hot_items,
    "q7": _highest_bid,
    "q8": _new_users,
    "q8-join": _new_users,
    "window-join": _window_join,
    "interval-join": _interval_join,
    "q12": _by_the_clock,
    "q4": _by_category,
    "q13": _with_label,
    "q14": _same_text("q14"),
    "q17": _statistics,
    "q20": _with_auction,
}
