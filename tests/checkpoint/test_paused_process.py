"""A process that is stopped, followed by another one, and continued: it writes nothing more. Without Spark.

Entries have a name each and are created, as those of the ledger: what was under way when the process was stopped finds
the entry of the other one in its place.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.servers import S3
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.object_store import ObjectStore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.remote.access import Access

SECONDS = 1.0
COUNTING = """
import json, sys, time
from pathlib import Path
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.object_store import ObjectStore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.errors import StateError
from windowpane.remote.access import Access

address, settings, seconds = sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])
remote = "://" in address
store = ObjectStore(address, Access.of_spark(settings), seconds) if remote else FolderStore(Path(address), seconds)
mine = RunLock(store).acquire()
try:
    for number in range(10**9):
        mine.create(f"entry-{number}", b"of the first")
        time.sleep(0.01)
except StateError as refused:
    sys.exit(refused.code)
"""


def test_in_a_bucket(s3: S3, tmp_path: Path) -> None:
    address = f"s3a://{s3.bucket}/{tmp_path.name}"
    follow(ObjectStore(address, Access.of_spark(s3.settings), SECONDS), address, s3.settings)


def test_in_a_folder_where_locks_do_not_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windowpane.checkpoint.lease.is_same_system", lambda _machine: False)
    follow(FolderStore(tmp_path, SECONDS), str(tmp_path), {}, lock=tmp_path / "run.lock")


def follow(store: Store, address: str, settings: dict[str, str], lock: Path | None = None) -> None:
    away = subprocess.Popen(
        [sys.executable, "-c", COUNTING, address, json.dumps(settings), str(SECONDS)], stderr=subprocess.PIPE, text=True
    )
    try:
        while not store.exists("entry-3"):
            time.sleep(0.02)
            assert away.poll() is None, away.communicate()[1]
        away.send_signal(signal.SIGSTOP)
        if lock is not None:
            lock.unlink()
        following = RunLock(store)
        mine = following.acquire()
        assert following.fence == 2
        entries = entry_names(store)
        following_entry = f"entry-{len(entries)}"
        assert mine.create(following_entry, b"of the second")
        away.send_signal(signal.SIGCONT)
        assert away.communicate(timeout=60)[1].strip() == "LEASE_LOST"
        assert store.read(following_entry) == b"of the second"
        assert entry_names(store) == entries | {following_entry}
        following.check()
        following.release()
    finally:
        away.kill()
        away.wait()


def entry_names(store: Store) -> set[str]:
    return {name for name in store.names() if name.startswith("entry-")}
