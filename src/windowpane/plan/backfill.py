"""What a backfill of a query reads, and which queries it cannot run because a batch would give other results."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.config import PipelineConfig
from windowpane.core.time_range import TimeRange
from windowpane.errors import ConfigError, WindowpaneError
from windowpane.plan.build import Plan
from windowpane.plan.reach import reach_of
from windowpane.plan.stages import TimeStage


@dataclass(frozen=True)
class BackfillPlan:
    """What a backfill of one transform reads and gives."""

    plan: Plan
    asked: TimeRange
    """Windows that start in this range come out."""
    read: TimeRange
    """Event times of the rows that they need."""
    unbounded: tuple[str, ...]
    """Why all rows are read, whatever the range."""
    recorded_since_us: int | None
    """Kafka records with a timestamp before this instant are not read; None: all are."""


def plan_backfill(config: PipelineConfig, plan: Plan, asked: TimeRange) -> BackfillPlan:
    """ConfigError if a batch cannot give what the stream gives."""
    for reason in _refusals(config, plan):
        raise reason
    reach = reach_of(plan.stages)
    read = reach.around(asked)
    return BackfillPlan(plan, asked, read, reach.unbounded, _recorded_since_us(plan, read))


def _recorded_since_us(plan: Plan, read: TimeRange) -> int | None:
    """A record may be older than its event time says by `max_future_skew`, and not by more."""
    skews = [stage.max_future_skew_us for stage in plan.stages.of(TimeStage)]
    if read.from_us is None or any(skew is None for skew in skews):
        return None
    return read.from_us - max((skew for skew in skews if skew is not None), default=0)


def _refusals(config: PipelineConfig, plan: Plan) -> list[WindowpaneError]:
    name, found = plan.transform, list[WindowpaneError]()
    if any(stage.mode == "processing_time" for stage in plan.stages.of(TimeStage)):
        what = f"transform `{name}` runs in processing time: which window a row belongs to depends on when it was read"
        hint = "declare the event time of its streams and set options.eventtime.enabled = true"
        found.append(config.error("BACKFILL_PROCESSING_TIME", what, hint, key=f"transforms.{name}"))
    relation = plan.query.source.relation
    for stream in dict.fromkeys(each.name for each in relation.streams):
        declared = config.streams[stream]
        if not declared.source_format.keeps_rows:
            what = f"stream `{stream}` has format {declared.format}, which does not keep its rows"
            hint = "backfills read files, Kafka topics, and formats that Spark can read as a batch"
            found.append(config.error("BACKFILL_SOURCE", what, hint, key=f"streams.{stream}.format"))
    for table in dict.fromkeys(join.table for join in relation.tables):
        if config.tables[table].refresh_us is not None:
            what = f"table `{table}` is read again while the stream runs, so each row met the version of its time"
            hint = "remove `refresh` in a copy of the pipeline to backfill with the table as it is now"
            found.append(config.error("BACKFILL_REFRESH", what, hint, key=f"tables.{table}.refresh"))
    return found


def parse_range(from_us: int, to_us: int) -> TimeRange:
    """ConfigError unless the range has a length."""
    if from_us >= to_us:
        raise ConfigError("BAD_RANGE", "--from must be before --to", "windows that start at --from or later come out")
    return TimeRange(from_us, to_us)
