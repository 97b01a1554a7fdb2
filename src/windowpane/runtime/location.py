"""Where a pipeline keeps its checkpoint. Does not import Spark, for commands that only read the checkpoint."""

from __future__ import annotations

from pathlib import Path

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.store import Store
from windowpane.config import PipelineConfig, checkpoint_setting

DEFAULT_CHECKPOINT = "state"
LOG_FILE = "spark.log"


def pipeline_store(config: PipelineConfig) -> Store:
    """The checkpoint of a whole pipeline; each transform has a folder of its name in it."""
    return store_at(_folder(config))


def prepare_store(config: PipelineConfig) -> None:
    """Create the folder of the checkpoint with the permissions that `options.umask` leaves.

    A folder that contains the pipeline's file keeps its own permissions. The folders of transforms, which
    earlier versions or another `umask` may have left open to others, are made as private.
    """
    folder, mode = _folder(config), 0o777 & ~int(config.options.umask, 8)
    is_shared = config.base_dir.resolve().is_relative_to(folder.resolve())
    root = FolderStore(folder)
    root.make_root(None if is_shared else mode)
    for transform in config.transforms:
        root.below(transform).tighten()


def log_file(config: PipelineConfig) -> Path:
    """The local file that gets Spark's output if the pipeline starts Spark itself."""
    return _folder(config) / LOG_FILE


def store_of_file(path: Path) -> Store:
    """The checkpoint of a pipeline.toml, without reading anything else of it, such as environment variables."""
    return store_at(path.parent / (checkpoint_setting(path) or DEFAULT_CHECKPOINT))


def store_at(folder: Path) -> Store:
    """The checkpoint in a folder."""
    return FolderStore(folder)


def _folder(config: PipelineConfig) -> Path:
    return config.base_dir / (config.options.checkpoint or DEFAULT_CHECKPOINT)
