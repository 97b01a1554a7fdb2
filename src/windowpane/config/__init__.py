"""Configuration: pipeline.toml as typed, frozen values. The lowest layer beside errors and time."""

from __future__ import annotations

from windowpane.config.loading import (
    PIPELINE_FILE,
    find_pipeline,
    load_pipeline,
    parse_options,
    parse_pipeline,
    parse_sink,
    parse_stream,
    parse_table,
    parse_transform,
)
from windowpane.config.models import (
    METRICS_ONLY,
    REINJECT,
    SIDE_KINDS,
    Dedupe,
    EventtimeOptions,
    LateRoute,
    Limits,
    Options,
    Route,
    SideKind,
    SideOutput,
    Sink,
    SparkSettings,
    Stream,
    StreamEventtime,
    Table,
    Transform,
)
from windowpane.config.pipeline import PipelineConfig
from windowpane.config.problems import MultipleConfigError
from windowpane.config.values import Trigger

__all__ = [
    "METRICS_ONLY",
    "PIPELINE_FILE",
    "REINJECT",
    "SIDE_KINDS",
    "Dedupe",
    "EventtimeOptions",
    "LateRoute",
    "Limits",
    "MultipleConfigError",
    "Options",
    "PipelineConfig",
    "Route",
    "SideKind",
    "SideOutput",
    "Sink",
    "SparkSettings",
    "Stream",
    "StreamEventtime",
    "Table",
    "Transform",
    "Trigger",
    "find_pipeline",
    "load_pipeline",
    "parse_options",
    "parse_pipeline",
    "parse_sink",
    "parse_stream",
    "parse_table",
    "parse_transform",
]
