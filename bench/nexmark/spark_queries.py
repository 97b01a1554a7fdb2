"""The queries in Spark's own API: Structured Streaming's windows as a user would write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.nexmark.queries import QUERIES, Query
from bench.nexmark.windows import Window

Frames = Mapping[str, DataFrame]
CANNOT = {"sliding": "Structured Streaming has no window per row"}
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
}
