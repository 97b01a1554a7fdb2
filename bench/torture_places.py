"""Where a tortured pipeline has its input, checkpoint and output: in a folder, on an S3 server, or in HDFS."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.servers import S3, Hdfs, hadoop_jars, running

if TYPE_CHECKING:
    from windowpane.checkpoint.store import Store

_PATH = re.compile(r'^(path|checkpoint) = "(\w+)"$', re.MULTILINE)

JOBS = ("q", "jobs/s")
"""Where the transform `q` may have Spark's checkpoint: a job of its own, or one with others over the stream `s`."""


class InFolder:
    """Beside the pipeline's file."""

    poll_seconds = 0.01

    def prepare(self, job: Path, toml: str) -> str:
        """Bring the input of a job there, and give the text of its pipeline."""
        return toml

    def has_begun(self, job: Path, batch: int) -> bool:
        """Whether Spark has planned this micro-batch."""
        return any((job / "state" / each / "spark" / "offsets" / str(batch)).exists() for each in JOBS)

    def is_running(self, job: Path, process: int) -> bool:
        """Whether a process says in its status that it runs."""
        path = job / "state" / "status.json"
        return path.exists() and _runs(path.read_bytes(), process)

    def bring_back(self, job: Path) -> None:
        """Bring what the pipeline has written into the folder of the job, to be looked at."""

    def files(self, job: Path, folder: str) -> list[str]:
        """The names in a folder of the job."""
        return [path.name for path in (job / folder).glob("*")]

    def read(self, job: Path, name: str) -> bytes | None:
        """A file of the job; None if it is gone."""
        with contextlib.suppress(FileNotFoundError):
            return (job / name).read_bytes()
        return None

    def hide_lock(self, job: Path) -> None:
        """Make the lock of a running pipeline one that does not reach other processes, as on some mounted folders."""
        (job / "state" / "run.lock").unlink()


@dataclass(frozen=True)
class InStore:
    """At an address, under the name of the job. `settings` and `jars`: how Spark reaches it."""

    address: str
    settings: dict[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    poll_seconds: float = 0.1

    def prepare(self, job: Path, toml: str) -> str:
        for path in sorted((job / "data").iterdir()):
            self._store(job).replace(f"data/{path.name}", path.read_bytes())
        there = _PATH.sub(rf'\1 = "{self.address}/{job.name}/\2"', toml)
        config = "".join(f'"{name}" = "{value}"\n' for name, value in self.settings.items())
        return f"{there}jars = {json.dumps(self.jars)}\n[spark.config]\n{config}"

    def has_begun(self, job: Path, batch: int) -> bool:
        return any(self._store(job).read(f"state/{each}/spark/offsets/{batch}") is not None for each in JOBS)

    def is_running(self, job: Path, process: int) -> bool:
        return _runs(self._store(job).read("state/status.json") or b"{}", process)

    def bring_back(self, job: Path) -> None:
        _bring(self._store(job), job, folders=not self.address.startswith("s3a:"))

    def files(self, job: Path, folder: str) -> list[str]:
        return list(self._store(job).below(folder).names())

    def read(self, job: Path, name: str) -> bytes | None:
        return self._store(job).read(name)

    def hide_lock(self, job: Path) -> None:
        """There is no lock but the lease."""

    def _store(self, job: Path) -> Store:
        from windowpane.config import SparkSettings  # noqa: PLC0415
        from windowpane.runtime.location import store_at  # noqa: PLC0415

        return store_at(f"{self.address}/{job.name}", Path(), SparkSettings(config={**self.settings}, jars=self.jars))


def _runs(status: bytes, process: int) -> bool:
    found = json.loads(status)
    return bool(found.get("state") == "running" and found.get("pid") == process)


def _bring(store: Store, folder: Path, *, folders: bool) -> None:
    """`folders`: also empty ones, because nothing should be left. In S3, an empty folder is only a mark of Hadoop's."""
    names = store.names()
    if names or folders:
        folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        data = store.read(name) if "." in name or name.isdigit() else None
        if data is None:
            _bring(store.below(name), folder / name, folders=folders)
        else:
            (folder / name).write_bytes(data)


Place = InFolder | InStore
IN_FOLDER = InFolder()


@contextlib.contextmanager
def opened(kind: str) -> Iterator[Place]:
    """A place for the length of a block, by its name: folder, s3 or hdfs."""
    if kind == "folder":
        yield IN_FOLDER
    elif kind == "s3":
        with running(S3) as server:
            yield in_bucket(server)
    else:
        with running(Hdfs) as server:
            yield InStore(f"{server.url}/torture")


def in_bucket(server: S3) -> InStore:
    return InStore(f"s3a://{server.bucket}/torture", server.settings, tuple(hadoop_jars()))
