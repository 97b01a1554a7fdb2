"""Which transforms of a pipeline share a job."""

from __future__ import annotations

from typing import Any

import pytest

from windowpane.config import parse_pipeline
from windowpane.errors import ConfigError
from windowpane.plan.jobs import PlannedJob, plan_jobs
from windowpane.plan.pipeline import plan_pipeline

SQL = "SELECT k, count(*) AS n FROM {} GROUP BY k, tumblingwindow('ss', {})"


def jobs(**transforms: Any) -> dict[str, PlannedJob]:
    stream = {"format": "json", "path": "in", "schema": "ts BIGINT, k STRING, v BIGINT",
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
    assert found["a"].describe("c") == "`s`, with `a`: `s` is read and decoded once for all of them"
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
