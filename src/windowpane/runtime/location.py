"""Where a pipeline keeps its checkpoint. Free of Spark, for commands that only read what is there."""

from __future__ import annotations

from pathlib import Path

from windowpane.config import PipelineConfig

DEFAULT_CHECKPOINT = "state"


def pipeline_folder(config: PipelineConfig) -> Path:
    """The checkpoint of a whole pipeline; each transform has a folder of its name in it."""
    return config.base_dir / (config.options.checkpoint or DEFAULT_CHECKPOINT)
