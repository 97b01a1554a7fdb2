"""Commands about a pipeline whose checkpoint is in an object store: from any machine, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scripts.servers import S3
from tests.command_runs import COMMAND
from windowpane.checkpoint.control import Requests
from windowpane.checkpoint.object_store import ObjectStore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.status import StatusFile
from windowpane.cli.status import send_request, show_status
from windowpane.errors import StateError
from windowpane.remote.access import Access

PIPELINE = """
[options]
checkpoint = "{checkpoint}"
[streams.s]
format = "rate"
options = {{ rowsPerSecond = "${{NOT_SET}}" }}
[spark.config]
{settings}
"""
STATUS = {"state": "running", "pid": 1, "started_us": 0, "updated_us": 0, "transforms": {}, "error": None}


@pytest.fixture
def store(s3: S3, tmp_path: Path) -> ObjectStore:
    address = f"s3a://{s3.bucket}/{tmp_path.name}"
    settings = "".join(f'"{name}" = "{value}"\n' for name, value in s3.settings.items())
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(checkpoint=address, settings=settings), encoding="utf-8")
    return ObjectStore(address, Access.of_spark(s3.settings), lease_seconds=1.0)


def test_status_and_stop(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    with pytest.raises(StateError) as never:
        show_status(file, as_json=False)
    assert never.value.code == "NEVER_RUN"
    lock = RunLock(store)
    mine = lock.acquire()
    StatusFile(mine).write(STATUS)
    shown = json.loads(show_status(file, as_json=True))
    assert (shown["running"], shown["checkpoint"]) == (True, store.address())

    def answer() -> None:
        requests = Requests(mine)
        while requests.take() != "stop":
            time.sleep(0.02)
        StatusFile(mine).write(STATUS | {"state": "stopped"})
        lock.release()

    running = threading.Thread(target=answer)
    running.start()
    assert "Stopped." in send_request(file, "stop", timeout=30)
    running.join()
    assert not json.loads(show_status(file, as_json=True))["running"]


def test_the_command_neither_loads_spark_nor_shows_credentials(store: ObjectStore, tmp_path: Path) -> None:
    StatusFile(store).write(STATUS)
    script = "import sys; from pathlib import Path; from windowpane.cli.status import show_status\n"
    script += "show_status(Path('pipeline.toml'), as_json=True); assert not {'pyspark', 'py4j'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    command = [*COMMAND, "inspect", store.address()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "secret-of-tests" not in done.stdout + done.stderr
