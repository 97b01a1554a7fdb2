"""Configuration: pipeline.toml as typed, frozen values. The lowest layer beside errors and time."""

from __future__ import annotations

from windowpane.config.durations import Trigger
from windowpane.config.example import EXAMPLE_PIPELINE, write_example
from windowpane.config.loading import (
    PIPELINE_FILE,
    checkpoint_setting,
    find_pipeline,
    load_pipeline,
    parse_options,
    parse_pipeline,
    parse_sink,
    parse_stream,
    parse_table,
    parse_transform,
    spark_settings,
)
from windowpane.config.models import (
    EventtimeOptions,
    Options,
    Retry,
    Sink,
    Stream,
    StreamEventtime,
    Table,
    UserFunctionSettings,
)
from windowpane.config.pipeline import PipelineConfig
from windowpane.config.problems import MultipleConfigError
from windowpane.config.spark_settings import SparkSettings
from windowpane.config.transforms import (
    METRICS_ONLY,
    REINJECT,
    Dedupe,
    LateRoute,
    Limits,
    Route,
    SideOutput,
    Transform,
)

__all__ = [
    "EXAMPLE_PIPELINE",
    "METRICS_ONLY",
    "PIPELINE_FILE",
    "REINJECT",
    "Dedupe",
    "EventtimeOptions",
    "LateRoute",
    "Limits",
    "MultipleConfigError",
    "Options",
    "PipelineConfig",
    "Retry",
    "Route",
    "SideOutput",
    "Sink",
    "SparkSettings",
    "Stream",
    "StreamEventtime",
    "Table",
    "Transform",
    "Trigger",
    "UserFunctionSettings",
    "checkpoint_setting",
    "find_pipeline",
    "load_pipeline",
    "parse_options",
    "parse_pipeline",
    "parse_sink",
    "parse_stream",
    "parse_table",
    "parse_transform",
    "spark_settings",
    "write_example",
]
