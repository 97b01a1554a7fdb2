"""What `windowpane init` writes: a commented pipeline.toml that works, and sample data with all kinds of trouble."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from windowpane.errors import ConfigError
from windowpane.time import format_instant

EXAMPLE_PIPELINE = '''\
# A windowpane pipeline: streams -> transforms (windowed SQL) -> sinks.
#   windowpane check      says what this pipeline will do, or what is wrong with it
#   windowpane explain    shows the plan
#   windowpane run        runs it on Spark; with --drain also windows that are still open come out at the end
# Relative paths start from the folder of this file. Durations are texts: "500ms", "5s", "2m", "1h", "1d".
# Any text may use ${NAME} or ${NAME:-default} from the environment; such values are never printed.

[streams.bids]                       # the name that SQL knows the stream by
format = "json"                      # any Spark source: json, csv, parquet, kafka, rate, delta, ...
path = "data/bids"
schema = "auction BIGINT, price BIGINT, ts STRING"     # Spark DDL
# Where a row carries its event time. Types: unixtimestamp_s, unixtimestamp_ms, unixtimestamp_us, iso8601, timestamp.
# strict = true makes a row without a readable time an error row; otherwise it falls back to the source's own time.
eventtime = { column = "ts", type = "iso8601", strict = true }
options = { maxFilesPerTrigger = 1 } # passed to the Spark source as they are

[options]
# enabled: true = event time, false = processing time, unset = event time only where the query has ON or the transform
# has event_time_field.
# late_tolerance: how far the watermark stays behind the largest event time seen.
eventtime = { enabled = true, late_tolerance = "5s" }
checkpoint = "state/hot"             # offsets, state and ledger: a restart goes on from here
trigger = "available_now"            # all there is, then end; or "as_fast_as_possible" (default), or an interval: "10s"
late_rule = "window"                 # "window" (default): late once all its windows are closed, or "row"
max_future_skew = "5m"               # rows further in the future do not move the watermark ("off": they do)
idle_timeout = "off"                 # a partition without rows for this long stops holding the watermark back (default)
# shards = 2                         # partitions of the stateful stage (default: one per core)
# max_rows_per_batch = 1000000       # the most records that a micro-batch takes from a Kafka stream (default)

[transforms.hot]
# Or keep the query in a file of its own: sql_file = "hot.sql"
sql = """
SELECT auction, window_start, count(*) AS bids, max(price) AS top
FROM bids
GROUP BY tumblingwindow('ss', 10), auction
"""
sink = "results"                     # or a list: ["results", "archive"]
allowed_lateness = "10s"             # how long after its end a window still takes rows (default "0s")
# watermark_lag = "5s"               # for this transform, instead of options.eventtime.late_tolerance
# event_time_field = "ts"            # for this transform, instead of the stream's eventtime.column
# The next two cost speed: all rows of a window meet in one shard, and the columnar scan no longer folds rows where it
# reads them. `windowpane explain` shows the difference.
# dedupe = { key = ["auction", "ts"], within = "10m" }   # the same key again within 10 minutes is a duplicate
# limits = { max_groups = 100000 }   # groups per window; rows of further groups are evicted

# Rows that reach no result, by kind: a sink's name, or "metrics_only" (default: count them, forward nothing).
# include_original adds the row as it was read; rate_limit is in rows per second ("off" for none, default 100000).
# Late rows can also go round again: { sink = "reinject", enable_reinject = true, max_reinjections = 3 }
[transforms.hot.side_output]
late = { sink = "dlq", include_original = true }
error = { sink = "dlq", include_original = true, rate_limit = 1000 }
evicted = { sink = "metrics_only" }
duplicate = { sink = "metrics_only" }

[sinks.results]
format = "console"                   # console, json, csv, parquet, kafka, postgres, memory, or any Spark sink

[sinks.dlq]
format = "json"
path = "out/dlq"

# [sinks.alerts]
# format = "kafka"
# options = { "kafka.bootstrap.servers" = "${KAFKA:-localhost:9092}", topic = "alerts" }

# [sinks.warehouse]
# format = "postgres"
# mode = "update"                    # a later emission replaces the earlier one of its window and group
# options = { url = "${WAREHOUSE_URL}", table = "hot_auctions" }

# [tables.auctions]                  # a static table, to join the stream with
# format = "parquet"
# path = "data/auctions"

[spark]
master = "local[*]"
app_name = "windowpane example"
# packages = ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"]
config = { "spark.sql.shuffle.partitions" = 2 }
'''

_START_US = 1_767_225_600_000_000
_SECOND_US = 1_000_000
_FILES = 4
_ROWS_PER_FILE = 30
_CORRUPT = (
    '{"auction": 3, "price": 12',
    '{"auction": 2, "price": 250, "ts": "yesterday, about noon"}',
    '{"auction": 4, "price": "a lot", "ts": "2026-01-01T00:01:10.000000Z"}',
)


def write_example(folder: str | Path) -> list[Path]:
    """Writes the example into `folder` and gives the files written. Where one exists, writes none."""
    target = Path(folder)
    texts = {"pipeline.toml": EXAMPLE_PIPELINE} | {f"data/bids/{name}": text for name, text in example_data().items()}
    there = [name for name in texts if (target / name).exists()]
    if there:
        message = f"`{target / there[0]}` exists already, and nothing was written"
        raise ConfigError("FILE_EXISTS", message, "choose another folder, or move it away", file=str(target / there[0]))
    try:
        return [_write(target / name, text, order) for order, (name, text) in enumerate(texts.items())]
    except OSError as error:
        message = f"the example cannot be written to `{target}`: {error.strerror}"
        raise ConfigError("CANNOT_WRITE", message, "choose another folder", file=str(target)) from None


def _write(path: Path, text: str, order: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    # Spark reads files in the order of their modification times, and lateness depends on that order.
    modified = path.stat().st_mtime - 60 + order
    os.utime(path, (modified, modified))
    return path


def example_data() -> dict[str, str]:
    """Files of JSON lines: two minutes of bids, up to three seconds out of order, some far too late, some corrupt."""
    return {f"bids-{number + 1:03}.json": "\n".join(_lines(number)) + "\n" for number in range(_FILES)}


def _lines(file: int) -> Iterator[str]:
    for row in range(file * _ROWS_PER_FILE, (file + 1) * _ROWS_PER_FILE):
        disorder = row * 3 % 4
        yield _bid(row, max(row - disorder, 0))
    if file >= _FILES // 2:
        yield _bid(file, file)
    if file < len(_CORRUPT):
        yield _CORRUPT[file]


def _bid(row: int, second: int) -> str:
    ts = format_instant(_START_US + second * _SECOND_US)
    return json.dumps({"auction": 1 + row * 7 % 5, "price": 100 + row * 37 % 400, "ts": ts})
