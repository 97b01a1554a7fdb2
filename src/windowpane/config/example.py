"""What `windowpane init` writes: a commented pipeline.toml that works, and sample data with all kinds of trouble."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from windowpane.errors import ConfigError
from windowpane.formats import KAFKA_CONNECTOR
from windowpane.time import format_instant

EXAMPLE_PIPELINE = '''\
# A windowpane pipeline: streams -> transforms (windowed SQL) -> sinks.
#   windowpane check      checks this file and says what the pipeline will do
#   windowpane explain    shows the plan
#   windowpane run        runs it on Spark; --drain also emits the windows that are still open at the end
# Relative paths are relative to this file. Durations are strings: "500ms", "5s", "2m", "1h", "1d".
# Any string may use ${NAME} or ${NAME:-default} from the environment; those values are never printed.

[streams.bids]                       # the stream's name in SQL
format = "json"                      # any Spark source: json, csv, parquet, kafka, rate, delta, ...
path = "data/bids"
schema = "auction BIGINT, price BIGINT, ts STRING"     # Spark DDL
# The column with a row's event time. Types: unixtimestamp_s, unixtimestamp_ms, unixtimestamp_us, iso8601, timestamp.
# strict: rows without a readable time become error rows. Otherwise they get the source's own time.
eventtime = { column = "ts", type = "iso8601", strict = true }
options = { maxFilesPerTrigger = 1 } # passed to the Spark source unchanged

[options]
# enabled: true = event time, false = processing time, unset = event time only where the query has ON or the transform
# has event_time_field.
# late_tolerance: how far the watermark stays behind the largest event time seen.
eventtime = { enabled = true, late_tolerance = "5s" }
checkpoint = "state/hot"             # offsets, state and ledger: a restart resumes from here
trigger = "available_now"            # stop after reading everything; or "as_fast_as_possible" (default); or "10s"
late_rule = "window"                 # "window" (default): a row is late once all its windows are closed; or "row"
max_future_skew = "5m"               # rows further in the future do not move the watermark ("off": they do)
idle_timeout = "off"                 # a partition without rows for this long stops holding the watermark back (default)
# shards = 2                         # partitions of each stateful stage (default: one per core)
# extra_shuffles = false             # whether dedupe and max_groups are shuffled apart (default: if shards > 1)
# max_rows_per_batch = 1000000       # the most records that a micro-batch takes from a Kafka stream (default)

[transforms.hot]
# Or put the query into a file: sql_file = "hot.sql"
sql = """
SELECT auction, window_start, count(*) AS bids, max(price) AS top
FROM bids
GROUP BY tumblingwindow('ss', 10), auction
"""
sink = "results"                     # or a list: ["results", "archive"]
allowed_lateness = "10s"             # how long a window accepts rows after its end (default "0s")
# watermark_lag = "5s"               # overrides options.eventtime.late_tolerance
# event_time_field = "ts"            # overrides the stream's eventtime.column
# The next two settings are slower: rows are no longer aggregated where they are read, and may all go to one shard.
# `windowpane explain` shows the difference.
# dedupe = { key = ["auction", "ts"], within = "10m" }   # a key that repeats within 10 minutes is a duplicate
# limits = { max_groups = 100000 }   # groups per window; rows of further groups are evicted

# Where rows go that reach no result, by kind: a sink, or "metrics_only" (default): they are only counted.
# include_original adds the row as it was read; rate_limit is in rows per second (default 100000, "off" for no limit).
# Late rows can also be read again: { sink = "reinject", enable_reinject = true, max_reinjections = 3 }
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
# mode = "update"                    # an update replaces the row of its window and group
# options = { url = "${WAREHOUSE_URL}", table = "hot_auctions" }

# [tables.auctions]                  # a static table that streams can be joined with
# format = "parquet"
# path = "data/auctions"

[spark]
master = "local[*]"
app_name = "windowpane example"
# packages = ["@KAFKA_CONNECTOR@"]
config = { "spark.sql.shuffle.partitions" = 2 }
'''.replace("@KAFKA_CONNECTOR@", KAFKA_CONNECTOR)

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
    """Write the example into `folder` and return the files. If one of them exists, write none."""
    target = Path(folder)
    texts = {"pipeline.toml": EXAMPLE_PIPELINE} | {f"data/bids/{name}": text for name, text in example_data().items()}
    there = [name for name in texts if (target / name).exists()]
    if there:
        message = f"`{target / there[0]}` already exists, so nothing was written"
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
