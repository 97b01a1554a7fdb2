"""Where a pipeline keeps its checkpoint. Does not import Spark, for commands that only read the checkpoint."""

from __future__ import annotations

from pathlib import Path

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.hadoop_store import HadoopStore
from windowpane.checkpoint.object_store import ObjectStore
from windowpane.checkpoint.run_lock import LEASE_FOLDER
from windowpane.checkpoint.store import Store
from windowpane.config import PipelineConfig, SparkSettings, checkpoint_setting, spark_settings
from windowpane.remote.access import Access
from windowpane.remote.hadoop import HadoopAccess
from windowpane.remote.objects import is_object_store, scheme_of

DEFAULT_CHECKPOINT = "state"
LOG_FILE = "spark.log"


def pipeline_store(config: PipelineConfig, access: Access | None = None) -> Store:
    """The checkpoint of a whole pipeline; each transform has a folder of its name in it.

    `access`: how object stores are reached, if not by `[spark]`.
    """
    place = config.options.checkpoint or DEFAULT_CHECKPOINT
    return store_at(place, config.base_dir, config.spark, access)


def prepare_store(config: PipelineConfig) -> None:
    """Create the folder of the checkpoint with the permissions that `options.umask` leaves.

    A folder that contains the pipeline's file keeps its own permissions. The folders of transforms, which
    earlier versions or another `umask` may have left open to others, are made as private.
    """
    folder, mode = _folder(config), 0o777 & ~int(config.options.umask, 8)
    if folder is None:
        return
    is_shared = config.base_dir.resolve().is_relative_to(folder.resolve())
    root = FolderStore(folder)
    root.make_root(None if is_shared else mode)
    for name in (LEASE_FOLDER, *config.transforms):
        root.below(name).tighten()


def log_file(config: PipelineConfig) -> Path:
    """The local file that gets Spark's output if the pipeline starts Spark itself."""
    return (_folder(config) or config.base_dir) / LOG_FILE


def store_of_file(path: Path, given: str | None = None) -> Store:
    """The checkpoint of a pipeline.toml. Nothing else of the file is read, but `[spark]` for an object store.

    `given`: a folder seen from here, or an address, instead of the checkpoint that the file names.
    """
    place = given or checkpoint_setting(path) or DEFAULT_CHECKPOINT
    base = Path().absolute() if given else path.parent
    return store_at(place, base, spark_settings(path) if scheme_of(place) else None)


def store_at(place: str, base: Path, spark: SparkSettings | None = None, access: Access | None = None) -> Store:
    """The checkpoint at an address, or in a folder. `base`: where relative paths start.

    `spark`: settings by which other machines are reached, if any; `access`: instead of them, for object stores.
    """
    config = spark.spark_config if spark is not None else {}
    if not scheme_of(place):
        return FolderStore(base / place)
    if is_object_store(place):
        return ObjectStore(place, access or Access.of_spark(config))
    jars = tuple(jar if "://" in jar else str(base / jar) for jar in spark.jars) if spark is not None else ()
    return HadoopStore(place, HadoopAccess.of_spark(config, jars))


def _folder(config: PipelineConfig) -> Path | None:
    place = config.options.checkpoint or DEFAULT_CHECKPOINT
    return None if scheme_of(place) else config.base_dir / place
