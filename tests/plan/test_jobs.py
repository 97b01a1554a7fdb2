"""Which transforms of a pipeline share a job."""

from __future__ import annotations

from typing import Any

import pytest

from windowpane.config import parse_pipeline
from windowpane.errors import ConfigError
from windowpane.plan.jobs import PlannedJob, plan_jobs
from windowpane.plan.pipeline import plan_pipeline

SQL = "SELECT k, count(*) AS n FROM {} GROUP BY k, tumblingwindow('ss', {})"


def jobs(form: str = "parquet", **transforms: Any) -> dict[str, PlannedJob]:
    stream = {"format": form, "path": "in", "schema": "ts BIGINT, k STRING, v BIGINT",
              "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}  # fmt: skip
    settings = {
        "streams": {"s": stream, "t": stream, "read_by_spark": stream | {"scan": "spark"}},
        "options": {"eventtime.enabled": True},
        "transforms": {name: {"sink": "out", **each} for name, each in transforms.items()},
        "sinks": {"out": {"format": "console"}},
    }
    config = parse_pipeline(settings)
    return {plan.transform: job for job in plan_jobs(config, plan_pipeline(config)) for plan in job.plans}


def over(stream: str, seconds: int = 5, **more: Any) -> dict[str, Any]:
    return {"sql": SQL.format(stream, seconds)} | more


def test_transforms_over_the_same_streams_share_a_job() -> None:
    both = "SELECT k, count(*) AS n FROM (SELECT ts, k FROM s UNION ALL SELECT ts, k FROM t) GROUP BY k, tumblingwindow('ss', 5)"  # noqa: E501
    found = jobs(a=over("s"), b=over("t"), c=over("s", 60), d={"sql": both}, e={"sql": both.replace("'ss'", "'mi'")})
    assert found["a"] is found["c"]
    assert found["d"] is found["e"]
    assert len({id(job) for job in found.values()}) == 3
    assert [plan.transform for plan in found["a"].plans] == ["a", "c"]
    assert found["a"].name == "s"
    assert found["a"].describe("c") == (
        "`s`, with `a`: `s` is read and decoded once for all of them; rows are folded once, with `a`, into panes of 5s"
    )
    assert found["b"].describe("b") == "a job of its own: no other transform reads the same streams"


def test_transforms_are_kept_apart() -> None:
    late = {"late": {"sink": "reinject", "enable_reinject": True}}
    found = jobs(
        a=over("s"), b=over("s", share=False), c=over("s", side_output=late), d=over("read_by_spark"),
        e=over("s", group="slow"), f=over("s", group="slow"), g=over("s"),
    )  # fmt: skip
    assert found["a"] is found["g"]
    assert found["e"] is found["f"]
    assert found["e"].name == "slow"
    alone = {name: job.alone_because for name, job in found.items() if job.alone_because}
    assert alone == {
        "b": "it has `share = false`",
        "c": "it reads reinjected rows, which no other transform reads",
        "d": "its rows are decoded by Spark, and only rows that workers decode are shared",
    }


@pytest.mark.parametrize(
    ("transforms", "code", "reason"),
    [
        ({"a": over("s", group="x"), "b": over("t", group="x")}, "GROUP_IMPOSSIBLE", "it reads other streams than `a`"),
        ({"a": over("read_by_spark", group="x")}, "GROUP_IMPOSSIBLE", "decoded by Spark"),
        ({"a": over("s", group="x", share=False)}, "BAD_VALUE", "exclude each other"),
        ({"a": over("s", group="a/b")}, "BAD_NAME", "cannot be a name"),
    ],
)
def test_groups_that_are_not_possible_are_refused(transforms: dict[str, Any], code: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as raised:
        jobs(**transforms)
    assert raised.value.code == code


COUNTS = "SELECT k, count(*) AS n FROM s{} GROUP BY k, {}"


def sharing(**transforms: Any) -> dict[str, str]:
    """What EXPLAIN says of the folds of transforms over `s`, without what it says of the reading."""
    found = jobs(**transforms)
    return {name: job.describe(name).rpartition("; ")[2] for name, job in found.items()}


def test_windows_of_different_sizes_fold_rows_once() -> None:
    """Into panes as wide as the greatest common divisor of their panes and of the differences of their offsets."""
    found = sharing(
        a={"sql": COUNTS.format("", "hoppingwindow('ss', 20, 8)")},
        b={"sql": "SELECT k, sum(v) AS n FROM s GROUP BY k WINDOW TUMBLING (SIZE 12 SECONDS, OFFSET 2 SECONDS)"},
        c={"sql": COUNTS.format("", "tumblingwindow('mi', 1)"), "watermark_lag": "7s", "allowed_lateness": "1m"},
    )
    assert found == {
        "a": "rows are folded once, with `b`, `c`, into panes of 2s",
        "b": "rows are folded once, with `a`, `c`, into panes of 2s",
        "c": "rows are folded once, with `a`, `b`, into panes of 2s",
    }


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        ({"sql": COUNTS.format(" WHERE v > 1", "tumblingwindow('ss', 5)")}, "it differs from `a` in WHERE"),
        ({"sql": "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 5)"}, "it differs from `a` in keys"),
        (
            {"sql": "SELECT k, sum(1 / v) AS n FROM s WHERE v > 1 GROUP BY k, tumblingwindow('ss', 5)"},
            "it differs from `a` in WHERE and expressions that can fail",
        ),
        (
            {"sql": COUNTS.format("", "tumblingwindow('ms', 4999)")},
            "it differs from `a` in windows, whose common panes would be too short",
        ),
        (
            {"sql": COUNTS.format("", "sessionwindow('ss', 5)")},
            "its windows (session) have no panes of a fixed length",
        ),
        (
            {"sql": "SELECT k, count(*) AS n FROM s GROUP BY k WINDOW TUMBLING (SIZE 1 DAY, TIME ZONE 'Asia/Tokyo')"},
            "its windows (tumbling) have no panes of a fixed length",
        ),
        (
            {"sql": "SELECT k, approx_top_k(v) AS t FROM s GROUP BY k, tumblingwindow('ss', 5)"},
            "approx_top_k(v) depends on how rows are cut into panes",
        ),
        (over("s", dedupe={"key": "v", "within": "1m"}), "its rows are not aggregated where they are read"),
        (over("s", limits={"max_groups": 9}), "its rows are not aggregated where they are read"),
        (
            over("s", side_output={"late": {"sink": "out", "include_original": True}}),
            "it differs from `a` in original events and columns read",
        ),
    ],
)
def test_explain_says_why_a_transform_folds_alone(transform: dict[str, Any], reason: str) -> None:
    found = sharing(a=over("s"), b=over("s", 10), odd=transform)
    assert found["odd"] == f"rows are folded for this transform alone: {reason}"
    assert found["a"] == "rows are folded once, with `b`, into panes of 5s"


def test_a_value_of_json_that_does_not_fit_is_bad_only_for_those_that_read_it() -> None:
    """So transforms that read other columns have other error rows, and fold by themselves."""
    sums = {"sql": "SELECT k, sum(v) AS n FROM s GROUP BY k, tumblingwindow('ss', 10)"}
    found = jobs("json", a=over("s"), b=sums)["a"]
    alone = "rows are folded for this transform alone: it differs from `b` in columns read"
    assert found.describe("a").endswith(alone)
    assert "folded once" in jobs("parquet", a=over("s"), b=sums)["a"].describe("a")
