"""`windowpane test --spark`: golden files on real Spark, for expressions that the harness refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from windowpane.cli.goldens import run_goldens_on_spark
from windowpane.errors import ConfigError
from windowpane.runtime.golden_spark import differences_on_spark
from windowpane.testing import golden

FILE = """# Names that sound alike are one group; only Spark has soundex.
stream s: ts BIGINT, k STRING, a BIGINT
  eventtime = { column = "ts", type = "unixtimestamp_ms" }
options
  eventtime.enabled = true
query
  SELECT window_start, soundex(k) AS s, sum(a) AS total FROM s GROUP BY tumblingwindow('ss', 10), soundex(k)
push
  ts  | k      | a
  1s  | Robert | 1
  2s  | Rupert | 2
  10s | x      | 4
expect rows
  window_start | s    | total
  0s           | R163 | 3
expect watermark 10s
expect accounting in 3, aggregated 3
restart
push
  ts | k      | a
  3s | Robert | 1
expect side
  kind | event_time | original_event.k
  late | 3s         | Robert
end
expect rows
  window_start | s    | total
  10s          | X000 | 4
"""


def test_a_file_that_only_spark_can_run(spark: SparkSession) -> None:
    read = golden.parse_golden(FILE, "x.slt")
    assert "UNSUPPORTED_IN_HARNESS" in golden.check(read)[0].render()
    assert differences_on_spark(read, spark) == []
    wrong = golden.parse_golden(FILE.replace("R163 | 3", "R163 | 4"), "x.slt")
    (difference,) = differences_on_spark(wrong, spark)
    assert "+ 0s           | R163 | 3" in difference.lines
    refused = golden.parse_golden(
        FILE.partition("push")[0].replace("'ss'", "'xx'") + "expect error UNKNOWN_UNIT\n", "x"
    )
    assert differences_on_spark(refused, spark) == []


def test_a_transform_that_is_read_by_name(spark: SparkSession) -> None:
    read = golden.read_golden(Path("tests/slt/transforms/chain_with_its_own_settings.slt"))
    assert differences_on_spark(read, spark) == []


@pytest.mark.parametrize("step", ["watermark 5s", "clock +5s", "push at 5s", "push shard 1", "end\nreplay"])
def test_steps_that_need_a_clock_or_a_watermark_set_by_hand(spark: SparkSession, step: str) -> None:
    with pytest.raises(ConfigError) as refused:
        differences_on_spark(golden.parse_golden(FILE + step + "\n", "x.slt"), spark)
    assert refused.value.code == "UNSUPPORTED_ON_SPARK"


def test_options_that_exclude_each_other() -> None:
    for mode, complete in (("all", False), ("as-written", True)):
        with pytest.raises(ConfigError, match="exclude each other"):
            run_goldens_on_spark([Path()], mode, complete=complete, as_json=False)


EXPLODED = Path(__file__).parents[1] / "slt" / "explode"
STACKED = """# stack and from_json, which only Spark evaluates; an unreadable array makes no row.
stream s: ts BIGINT, k STRING, text STRING
  eventtime = { column = "ts", type = "unixtimestamp_ms" }
options
  eventtime.enabled = true
query
  SELECT k, name, sum(x) AS total FROM s, LATERAL explode(from_json(text, 'ARRAY<INT>')) AS t(x)
  LATERAL VIEW stack(2, 'a', 'b') AS name GROUP BY tumblingwindow('ss', 10), k, name
push
  ts | k | text
  1s | x | '[1, 2]'
  2s | y | 'oops'
expect accounting in 5, made 3, aggregated 4, filtered 1
end
expect rows
  k | name | total
  x | a    | 3
  x | b    | 3
"""


@pytest.mark.parametrize("name", ["time_of_an_element", "late_rows_keep_their_event", "two_in_a_row", "stack"])
def test_several_rows_of_one(spark: SparkSession, name: str) -> None:
    text = STACKED if name == "stack" else (EXPLODED / f"{name}.slt").read_text()
    assert differences_on_spark(golden.parse_golden(text, f"{name}.slt"), spark) == []


@pytest.mark.parametrize(
    "name",
    [
        "joins/in_a_table",
        "joins/exists_in_a_table",
        "chains/having_where_and_errors",
        "chains/own_event_time",
        "chains/limit_below",
        "interval_joins/static_table_behind",
        "interval_joins/semi",
        "interval_joins/window_around",
        "stream_joins/comma",
        "stream_joins/three_streams",
        "interval_joins/with_results",
        "results/windows_named_for_over",
    ],
)
def test_queries_over_queries(spark: SparkSession, name: str) -> None:
    assert differences_on_spark(golden.read_golden(EXPLODED.parent / f"{name}.slt"), spark) == []
