"""Where a pipeline keeps its checkpoint. Free of Spark, for commands that only read what is there."""

from __future__ import annotations

from pathlib import Path

from windowpane.config import PipelineConfig, checkpoint_setting
from windowpane.durable import writing

DEFAULT_CHECKPOINT = "state"


def pipeline_folder(config: PipelineConfig) -> Path:
    """The checkpoint of a whole pipeline; each transform has a folder of its name in it."""
    return config.base_dir / (config.options.checkpoint or DEFAULT_CHECKPOINT)


def open_folder(config: PipelineConfig) -> Path:
    """The same, made if it is not there, with the permissions that `options.umask` leaves.

    A folder that holds the pipeline's file itself keeps its own.
    """
    folder, mode = pipeline_folder(config), 0o777 & ~int(config.options.umask, 8)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not config.base_dir.resolve().is_relative_to(folder.resolve()):
            folder.chmod(mode)
    return folder


def folder_of_file(path: Path) -> Path:
    """The same of a pipeline.toml, for commands that need nothing else of it: not its environment variables either."""
    return path.parent / (checkpoint_setting(path) or DEFAULT_CHECKPOINT)
