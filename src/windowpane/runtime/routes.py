"""Builds the sinks of a transform: for its results, and for each kind of side rows by its route."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from windowpane.checkpoint.outbox_files import OutboxFiles
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import METRICS_ONLY, REINJECT, PipelineConfig, Retry, Route
from windowpane.config import Sink as SinkConfig
from windowpane.connectors.hadoop import session_access
from windowpane.connectors.retrying import RetryingSink
from windowpane.connectors.sinks import Sink, SinkSettings
from windowpane.connectors.sources import resolved
from windowpane.errors import ConfigError, nearest
from windowpane.formats import load
from windowpane.outcomes import SideKind
from windowpane.plan.build import Plan
from windowpane.spark.channels import SideChannel
from windowpane.spark.reinjection import Reinjection
from windowpane.spark.result_channel import ResultChannel
from windowpane.spark.result_files import ResultFiles
from windowpane.spark.result_output import ResultOutput
from windowpane.spark.side_output import SideOutput, side_batches
from windowpane.spark.unpacking import SideRecords

_log = logging.getLogger("windowpane.run")


def check_given(config: PipelineConfig, plans: Sequence[Plan], given: Mapping[str, object]) -> None:
    """ConfigError for a sink from Python that no transform writes to, or that is not a Sink."""
    transforms = [config.transforms[plan.transform] for plan in plans]
    routed = {route.last for each in transforms for route in each.side_output.routes().values()}
    used = {name for each in transforms for name in each.sinks} | (routed - {METRICS_ONLY})
    for name, sink in given.items():
        if name not in used:
            message = f"`sinks` names `{name}`, but no transform writes to a sink of that name"
            raise ConfigError("UNKNOWN_SINK", message, f"valid, nearest first: {nearest(name, used)}")
        if not isinstance(sink, Sink):
            what = f"the sink `{name}` is a {type(sink).__name__}"
            raise ConfigError("BAD_TYPE", what, "give a MemorySink, a CallableSink, or a class derived from Sink")


def build_sinks(config: PipelineConfig, plan: Plan, given: Mapping[str, Sink]) -> list[Sink]:
    """The sinks of a transform's results."""
    names = config.transforms[plan.transform].sinks
    for name in names:
        if name not in given and name not in config.sinks:
            raise ConfigError(
                "UNKNOWN_SINK", f"transform `{plan.transform}` was removed and is not drained yet, and its sink "
                f"`{name}` is gone", f"put back [sinks.{name}], or drop the transform: windowpane run --evolve",
            )  # fmt: skip
    return [given.get(name) or build_sink(config, name, config.sinks[name]) for name in names]


def build_result_output(
    spark: SparkSession,
    config: PipelineConfig,
    label: str,
    sinks: Sequence[Sink],
    *,
    checkpoint: Checkpoint,
    lock: RunLock,
    stopping: threading.Event,
) -> ResultOutput:
    """A channel for each sink of results, with an outbox for when the sink is away. `label`: whose batches they are."""
    access = session_access(spark)

    def channel(sink: Sink) -> ResultChannel:
        pauses = (config.sinks[sink.name].retry if sink.name in config.sinks else Retry()).pauses
        outbox = checkpoint.result_outbox(sink.name)
        files = ResultFiles(spark, label, outbox, lock, access, checkpoint.runs)
        return ResultChannel(
            RetryingSink(sink, stopping, pauses, config.redact), outbox, keep=files.keep, build=files.batch,
            max_bytes=config.options.max_result_backlog_bytes, stopping=stopping, pauses=pauses, redact=config.redact,
        )  # fmt: skip

    _warn_of_others(checkpoint.result_outboxes(), [sink.name for sink in sinks], "no longer a sink of this transform")
    return ResultOutput([channel(sink) for sink in sinks])


def build_sink(config: PipelineConfig, name: str, declared: SinkConfig) -> Sink:
    """A sink by its format."""
    options = declared.spark_options
    path = declared.path or options.pop("path", None)
    settings = SinkSettings(
        format=declared.format, path=resolved(path, config.base_dir), options=options, mode=declared.mode,
        delivery=declared.delivery,
    )  # fmt: skip
    kind: type[Sink] = load(declared.sink_format.sink)
    return kind.create(name, settings)


def build_side_output(
    spark: SparkSession,
    config: PipelineConfig,
    plan: Plan,
    *,
    checkpoint: Checkpoint,
    record: PlanRecord,
    lock: RunLock,
    given: Mapping[str, Sink],
    label: str,
) -> SideOutput:
    """A channel for each sink of side rows, and the reinjection if a kind is reinjected. `label`: whose they are."""
    routes = config.transforms[plan.transform].side_output.routes()
    channels = {}
    for name in dict.fromkeys(route.last for route in routes.values() if route.last != METRICS_ONLY):
        sink = given.get(name) or build_sink(config, name, config.sinks[name])
        side_records = _side_records(plan, {kind: route for kind, route in routes.items() if route.last == name})
        build = side_batches(
            spark,
            label,
            side_records,
            run_id=checkpoint.log.run_id,
            is_unnamed=record.is_unnamed,
            lock=lock,
        )
        pauses = config.sinks[name].retry.pauses if name in config.sinks else ()
        channels[name] = SideChannel(
            sink, side_records, checkpoint.outbox(name), build,
            max_pending=config.options.max_side_backlog, pauses=pauses, redact=config.redact,
        )  # fmt: skip
    _warn_of_others(checkpoint.outboxes(), channels, "named by no route any more")
    return SideOutput(channels, _reinjection(plan, checkpoint, routes))


def _warn_of_others(outboxes: Mapping[str, OutboxFiles[Any]], sinks: Collection[str], why: str) -> None:
    """Warn of rows of an earlier run for sinks other than `sinks`. They are kept, and not delivered."""
    for sink, outbox in outboxes.items():
        rows = sum(outbox.pending().values())
        if rows and sink.partition("~")[0] not in sinks:
            what = "%s %s wait in %s for `%s`, which is %s"
            _log.warning(what, f"{rows:,}", outbox.holds, outbox.address(), sink, why)


def _side_records(plan: Plan, routes: Mapping[SideKind, Route]) -> SideRecords:
    originals = tuple(kind for kind, route in routes.items() if route.include_original)
    limits = tuple((kind, route.rate_limit) for kind, route in routes.items() if route.rate_limit is not None)
    return SideRecords(plan.plan_id, plan.transform, tuple(routes), originals, limits)


def _reinjection(plan: Plan, checkpoint: Checkpoint, routes: Mapping[SideKind, Route]) -> Reinjection | None:
    again = {kind: route for kind, route in routes.items() if route.sink == REINJECT}
    if not again:
        return None
    limits: dict[str, int] = {kind: route.max_reinjections for kind, route in again.items()}
    rates: dict[str, int] = {kind: route.rate_limit for kind, route in again.items() if route.rate_limit is not None}
    return Reinjection(checkpoint.queue, plan.query.relation.streams[0].name, limits, rates)
