"""Which sinks a transform writes to: its results, and each kind of side rows by its route."""

from __future__ import annotations

from collections.abc import Mapping

from windowpane.config import METRICS_ONLY, REINJECT, PipelineConfig
from windowpane.config import Sink as SinkSettings
from windowpane.connectors.console import ConsoleSink
from windowpane.connectors.files import FileSink
from windowpane.connectors.kafka import KafkaSink
from windowpane.connectors.postgres import PostgresSink
from windowpane.connectors.sinks import MemorySink, Sink, SparkFormatSink
from windowpane.connectors.sources import resolved
from windowpane.plan.build import Plan
from windowpane.spark.unpacking import SideDocuments

FILE_FORMATS = ("json", "csv", "parquet")


def build_sinks(config: PipelineConfig, plan: Plan, given: Mapping[str, Sink]) -> list[Sink]:
    """The sinks of a transform's results."""
    names = config.transforms[plan.transform].sinks
    return [given.get(name) or build_sink(config, name, config.sinks[name]) for name in names]


def build_sink(config: PipelineConfig, name: str, settings: SinkSettings) -> Sink:
    """A sink by its format."""
    path = resolved(settings.path, config.base_dir)
    if settings.format == "console":
        return ConsoleSink(name, int(settings.spark_options.get("numRows", "20")))
    if settings.format == "memory":
        return MemorySink(name)
    if settings.format in FILE_FORMATS:
        assert path is not None, "checked when the configuration was loaded"
        return FileSink(name, settings.format, path, settings.spark_options)
    if settings.format == "kafka":
        return KafkaSink(name, settings.spark_options)
    if settings.format == "postgres":
        return PostgresSink(name, settings.spark_options, settings.mode)
    return SparkFormatSink(name, settings.format, path, settings.spark_options)


def side_sinks(config: PipelineConfig, plan: Plan, given: Mapping[str, Sink]) -> dict[str, tuple[Sink, SideDocuments]]:
    """Sinks that take side rows, each with the kinds routed to it."""
    routes = config.transforms[plan.transform].side_output.routes()
    for kind, route in routes.items():
        if route.sink == REINJECT:
            raise config.error(
                "UNSUPPORTED_ROUTE", f"`{kind}` rows cannot be reinjected yet", "route them to a sink or metrics_only",
                key=f"transforms.{plan.transform}.side_output.{kind}.sink",
            )  # fmt: skip
    found: dict[str, tuple[Sink, SideDocuments]] = {}
    for name in dict.fromkeys(route.sink for route in routes.values() if route.sink != METRICS_ONLY):
        kinds = tuple(kind for kind, route in routes.items() if route.sink == name)
        originals = tuple(kind for kind in kinds if routes[kind].include_original)
        sink = given.get(name) or build_sink(config, name, config.sinks[name])
        limits = tuple((kind, limit) for kind in kinds if (limit := routes[kind].rate_limit) is not None)
        found[name] = (sink, SideDocuments(plan.plan_id, kinds, originals, limits))
    return found
