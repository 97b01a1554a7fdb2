"""Makes few large files of the many small ones that a stopped pipeline has written to its file sinks.

A copy of the folder is made beside it, with links to the files that stay. Both then change places in one step of the
file system, so that a reader who lists the folder sees each row once. Needs no Spark.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from windowpane.checkpoint.addresses import local_path
from windowpane.checkpoint.job_folders import JobFolder, job_folders
from windowpane.checkpoint.plan_record import PlanFile
from windowpane.checkpoint.resetting import undelivered
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoints import Savepoints
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import suffix_of, transform_checkpoint
from windowpane.config import PipelineConfig
from windowpane.connectors.merged_files import merge
from windowpane.durable import sync_folder
from windowpane.errors import SinkError, WindowpaneError, gist, nearest
from windowpane.remote.access import Access
from windowpane.remote.objects import is_object_store, scheme_of
from windowpane.runtime.compacting_objects import compact_objects
from windowpane.runtime.compaction_groups import TARGET_BYTES, Bounds, Files
from windowpane.runtime.location import pipeline_store
from windowpane.runtime.savepoints import job_runs

_BESIDE, _MARK = ".compacting", "_compacted.json"
_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS."""


@dataclass(frozen=True)
class Compacted:
    """What happened to the files of a transform in a sink."""

    sink: str
    transform: str
    before: int
    after: int
    note: str = ""


def compact(config: PipelineConfig, only: str | None = None, target_bytes: int = TARGET_BYTES) -> list[Compacted]:
    """Compact the results of all transforms, or of one. StateError while a process runs on the checkpoint."""
    if only is not None and only not in config.transforms:
        hint = f"transforms: {nearest(only, config.transforms)}"
        raise config.error("UNKNOWN_TRANSFORM", f"there is no transform `{only}`", hint)
    store = pipeline_store(config)
    lock = RunLock(store)
    held = lock.acquire()
    try:
        done = [each for job in job_folders(held) for each in _of_job(config, held, job, only, target_bytes)]
    finally:
        lock.release()
    return done


def _of_job(
    config: PipelineConfig, store: Store, job: JobFolder, only: str | None, target_bytes: int
) -> Iterator[Compacted]:
    runs = job_runs(store, job)
    moments = [each.moments.get(job.name) for each in Savepoints(store).all()]
    savepoints = sorted({moment.batch_id for moment in moments if moment is not None})
    for home in job.homes:
        if home not in config.transforms or only not in (None, home):
            continue
        checkpoint = transform_checkpoint(store, home)
        last, record = checkpoint.ledger.last(), PlanFile(store.below(home)).read()
        if last is None or record is None:
            continue
        waiting = undelivered(checkpoint).get("results", 0)
        # The batch after the last one that Spark has committed may be written again.
        bounds = Bounds(last.batch_id if checkpoint.is_finished() else last.batch_id - 1, savepoints)
        whose = {f"{home}{suffix_of(version)}" for version in range(1, record.version + 1)}
        for name in config.transforms[home].sinks:
            if name not in config.sinks or config.sinks[name].sink_format.takes_back != "files":
                continue
            if waiting:
                yield Compacted(name, home, 0, 0, "left alone: results are waiting for a sink")
            else:
                yield _of_sink(config, name, home, Files(whose, runs, bounds, target_bytes))


def _of_sink(config: PipelineConfig, name: str, transform: str, files: Files) -> Compacted:
    sink = config.sinks[name]
    path = sink.path or sink.spark_options["path"]
    path = local_path(path) or path
    header = sink.spark_options.get("header", "false").lower() == "true"
    if is_object_store(path):
        access = Access.of_spark(config.spark.spark_config)
        try:
            return Compacted(name, transform, *compact_objects(path, access, files, header=header))
        except WindowpaneError:
            raise
        except Exception as failed:
            what = f"the files of sink `{name}` in {path} could not be compacted: {gist(failed)}"
            raise SinkError("SINK_WRITE", what, "compact again: it ends what was begun") from failed
    if scheme_of(path):
        return Compacted(name, transform, 0, 0, f"left alone: files of {scheme_of(path)}:// are not compacted")
    folder = Path(config.resolve(path))
    if not folder.is_dir():
        return Compacted(name, transform, 0, 0)
    try:
        before, after = compact_folder(folder, files, header=header)
    except OSError as failed:
        what = f"the files of sink `{name}` in {folder} could not be compacted: {failed.strerror or failed}"
        raise SinkError("SINK_WRITE", what) from failed
    return Compacted(name, transform, before, after)


def compact_folder(folder: Path, files: Files, *, header: bool = False) -> tuple[int, int]:
    """Compact the files of a folder. How many there were, and how many there are. May be repeated if it is cut short.

    A group of files becomes one that is called like the last of them. So going back to a savepoint finds it.
    """
    folder = folder.resolve()
    beside = folder.parent / f".{folder.name}{_BESIDE}"
    _finish(folder, beside)
    before, groups = files.count(folder), files.groups(folder)
    if not groups:
        return before, before
    merged = {file.name for group in groups for file in group}
    beside.mkdir()
    beside.chmod(folder.stat().st_mode & 0o777)
    linked = []
    for file in folder.iterdir():
        if file.is_file() and file.name not in merged and not _is_checksum(file.name, merged):
            os.link(file, beside / file.name)
            linked.append(file.name)
    for group in groups:
        merge(group, beside / group[-1].name, header=header)
    mark = {"replaced": sorted({*merged, *linked, *(f".{name}.crc" for name in merged)})}
    (beside / _MARK).write_text(json.dumps(mark), encoding="utf-8")
    sync_folder(beside)
    _exchange(folder, beside)
    sync_folder(folder.parent)
    _finish(folder, beside)
    return before, files.count(folder)


def _is_checksum(name: str, of: Collection[str]) -> bool:
    """Whether it is Hadoop's checksum of one of the files."""
    return name.startswith(".") and name.endswith(".crc") and name[1 : -len(".crc")] in of


def _finish(folder: Path, beside: Path) -> None:
    """After both have changed places: take over what others have written meanwhile, and remove the old folder.

    If they have not, what was begun beside the folder is removed.
    """
    mark = folder / _MARK
    if beside.exists() and mark.exists():
        known: Mapping[str, list[str]] = json.loads(mark.read_text(encoding="utf-8"))
        replaced = set(known["replaced"])
        for each in beside.iterdir():
            if each.name not in replaced and not (folder / each.name).exists():
                each.rename(folder / each.name)
    if beside.exists():
        shutil.rmtree(beside)
        sync_folder(folder.parent)
    mark.unlink(missing_ok=True)


def _exchange(left: Path, right: Path) -> None:
    """Let two folders change places in one step. SinkError where the file system has no such step."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(left), os.fsencode(right)
    try:
        if sys.platform == "darwin":
            code = libc.renamex_np(*names, _EXCHANGE)
        else:
            code = libc.renameat2(-100, names[0], -100, names[1], _EXCHANGE)
    except AttributeError:
        code = -1
        ctypes.set_errno(errno.ENOSYS)
    if code != 0:
        number = ctypes.get_errno()
        shutil.rmtree(right)
        if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            what = f"the file system of {left} cannot exchange two folders in one step, so nothing was changed"
            raise SinkError("UNSUPPORTED_FILE_SYSTEM", what, "write the results to another disk, or to a delta sink")
        raise OSError(number, os.strerror(number))
