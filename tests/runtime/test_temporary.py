"""Temporary folders: gone at the end of their process, and after SIGKILL at the start of the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from windowpane import temporary

OWNER = """
import sys, time
from windowpane.temporary import make_temporary
for kind in ("jvm", "python"):
    (make_temporary(kind) / "settings").write_text("password")
print("made", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def begin(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=os.environ | {"TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "made\n"
    return process


def kinds(folder: Path) -> list[str]:
    return sorted(path.name.split("-")[1] for path in folder.glob("windowpane-*"))


def test_folders_go_with_their_process_or_at_the_next_start(folder: Path) -> None:
    killed, living, ending = begin(folder), begin(folder), begin(folder)
    assert kinds(folder) == ["jvm"] * 3 + ["python"] * 3
    ending.communicate()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert kinds(folder) == ["jvm"] * 2 + ["python"] * 2
    with temporary.temporary("golden") as made:
        assert kinds(folder) == ["golden", "jvm", "python"], "a living process keeps its own"
        assert made.stat().st_mode & 0o777 == 0o700
        temporary.remove_leftovers()
        assert made.is_dir()
    living.communicate()
    assert kinds(folder) == []


def test_what_is_not_known_to_be_left_over_stays(folder: Path) -> None:
    for name in ("windowpane-jvm-half-made", "windowpane-jvm-just-made", "windowpane-python-of-an-earlier-version"):
        (folder / name).mkdir()
    (folder / "windowpane-python-of-an-earlier-version" / "python3").touch()
    (folder / "windowpane-kafka-of-a-test").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "owner.lock").touch()
    (folder / "windowpane-jvm-link").symlink_to(folder / "elsewhere")
    for path in folder.glob("windowpane-*"):
        if "just" not in path.name:
            os.utime(path, (1, 1), follow_symlinks=False)
    temporary.remove_leftovers()
    left = {path.name for path in folder.iterdir()}
    assert left == {
        "windowpane-jvm-just-made",
        "windowpane-python-of-an-earlier-version",
        "windowpane-kafka-of-a-test",
        "elsewhere",
        "windowpane-jvm-link",
    }
    assert (folder / "elsewhere" / "owner.lock").exists()


HEIR = """
import subprocess, sys
from windowpane.temporary import lock_of, make_temporary
folder = make_temporary("jvm")
subprocess.Popen(["sh", "-c", "read line"], pass_fds=(lock_of(folder),))
print("made", flush=True)
sys.stdin.read()
"""


def test_a_child_that_inherits_the_lock_keeps_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM that starts while its parent is killed would fail without its folder, and never end."""
    monkeypatch.setattr(sys.modules[__name__], "OWNER", HEIR)
    owner = begin(folder)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    temporary.remove_leftovers()
    assert kinds(folder) == ["jvm"]
    owner.communicate()  # the child reads from the pipe that this closes, and ends
    deadline = time.monotonic() + 20
    while kinds(folder) and time.monotonic() < deadline:
        temporary.remove_leftovers()
        time.sleep(0.05)
    assert kinds(folder) == []
