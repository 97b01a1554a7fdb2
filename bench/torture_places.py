"""Where a tortured pipeline has its input, checkpoint and output: in a folder, or in a bucket of an S3 server."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATH = re.compile(r'^(path|checkpoint) = "(\w+)"$', re.MULTILINE)


class InFolder:
    """Beside the pipeline's file."""

    def prepare(self, job: Path, toml: str) -> str:
        """Bring the input of a job there, and give the text of its pipeline."""
        return toml

    def has_begun(self, job: Path, batch: int) -> bool:
        """Whether Spark has planned this micro-batch."""
        return (job / "state" / "q" / "spark" / "offsets" / str(batch)).exists()

    def bring_back(self, job: Path) -> None:
        """Bring what the pipeline has written into the folder of the job, to be looked at."""

    def hide_lock(self, job: Path) -> None:
        """Make the lock of a running pipeline one that does not reach other processes, as on some mounted folders."""
        (job / "state" / "run.lock").unlink()


@dataclass
class InBucket:
    """In a bucket, under the name of the job. `settings`: of Spark; `jars` know how to reach it."""

    bucket: str
    settings: dict[str, str]
    jars: list[str]

    def prepare(self, job: Path, toml: str) -> str:
        for path in sorted((job / "data").iterdir()):
            self._api.put(self._client, f"{job.name}/data/{path.name}", path.read_bytes())
        there = _PATH.sub(rf'\1 = "s3a://{self.bucket}/{job.name}/\2"', toml)
        config = "".join(f'"{name}" = "{value}"\n' for name, value in self.settings.items())
        return f"{there}jars = {json.dumps(self.jars)}\n[spark.config]\n{config}"

    def has_begun(self, job: Path, batch: int) -> bool:
        with contextlib.suppress(FileNotFoundError):
            self._api.head(self._client, f"{job.name}/state/q/spark/offsets/{batch}")
            return True
        return False

    def bring_back(self, job: Path) -> None:
        for chunk in self._api.list(self._client, job.name):
            for each in chunk:
                # Without those that stand for folders, which cannot be read by the name that is listed.
                with contextlib.suppress(FileNotFoundError):
                    data = bytes(self._api.get(self._client, each["path"]).bytes())
                    path = job.parent / each["path"]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)

    def hide_lock(self, job: Path) -> None:
        """There is no lock but the lease."""

    @property
    def _api(self) -> Any:
        import obstore  # noqa: PLC0415

        return obstore

    @property
    def _client(self) -> Any:
        from windowpane.remote.access import Access  # noqa: PLC0415
        from windowpane.remote.objects import client  # noqa: PLC0415

        return client(f"s3a://{self.bucket}", Access.of_spark(self.settings))


Place = InFolder | InBucket
IN_FOLDER = InFolder()


@contextlib.contextmanager
def in_bucket() -> Iterator[InBucket]:
    """A bucket of an S3 server that runs for the length of the block."""
    from scripts.servers import S3, hadoop_jars, running  # noqa: PLC0415

    with running(S3) as server:
        yield InBucket(server.bucket, server.settings, hadoop_jars())
