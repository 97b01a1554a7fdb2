"""The cache of state pieces: what is damaged or missing is found out, workers share it, and it is bounded. No Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.pieces import cached, piece
from windowpane.core import blob
from windowpane.spark import piece_cache
from windowpane.spark.piece_cache import FOLDER, LOCAL_FOLDERS, PieceCache, worker_cache

ROWS = b"rows " * 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pieces"


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"other" * 1000)
    other.replace(path)


@pytest.mark.parametrize("reads_before", [0, 1], ids=["unread", "read before"])
@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        _truncate,
        _flip,
        _replace,
        lambda path: path.write_bytes(b""),
        lambda path: shutil.rmtree(path.parent),
    ],
    ids=["deleted", "truncated", "bit flipped", "replaced", "emptied", "folder deleted"],
)
def test_damage_is_found_out_and_repaired(folder: Path, damage: Callable[[Path], None], reads_before: int) -> None:
    cache = PieceCache(folder, 100_000)
    cache.put(piece(ROWS), ROWS)
    for _ in range(reads_before):
        assert cache.read(piece(ROWS)) == ROWS
    damage(folder / piece(ROWS)[-32:])
    assert cache.read(piece(ROWS)) is None
    cache.put(piece(ROWS), ROWS)
    assert cache.read(piece(ROWS)) == ROWS
    assert cached(folder) == [piece(ROWS)[-32:]]


def test_content_is_checked_once_and_again_when_the_file_has_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[int] = []

    def counted(data: bytes, digest_size: int) -> Any:
        hashed.append(len(data))
        return blake2b(data, digest_size=digest_size)

    monkeypatch.setattr(piece_cache, "blake2b", counted)
    writer, reader = PieceCache(folder, 100_000), PieceCache(folder, 100_000)
    writer.put(piece(ROWS), ROWS)
    assert [reader.read(piece(ROWS)) for _ in range(3)] == [ROWS] * 3
    assert len(hashed) == 1
    writer.put(piece(ROWS), ROWS)
    assert [reader.read(piece(ROWS)) for _ in range(3)] == [ROWS] * 3
    assert len(hashed) == 2, "a file that was written again is checked again"


def test_what_is_mapped_outlives_its_file(folder: Path) -> None:
    cache = PieceCache(folder, 100_000)
    cache.put(piece(ROWS), ROWS)
    mapped = cache.read(piece(ROWS))
    cache.drop(piece(ROWS))
    assert cached(folder) == []
    assert mapped == ROWS


def test_nothing_of_a_mapped_blob_is_copied(folder: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"f": np.arange(100_000.0), "s": pa.array(["text"] * 100_000)})
    packed = blob.pack(blob.State({"a": 1}, {"x": rows.slice(0, 1), "y": rows}))
    cache = PieceCache(folder, 10_000_000)
    cache.put(piece(packed), packed)
    before = pa.total_allocated_bytes()
    found = cache.read(piece(packed))
    assert found is not None
    unpacked = blob.unpack(found)
    assert unpacked.batches["y"].equals(rows)
    assert pa.total_allocated_bytes() - before < 10_000
    assert all(buffer.address % 8 == 0 for column in unpacked.batches["y"].columns for buffer in column.buffers()[1:])


def test_the_least_recently_used_go_first(folder: Path) -> None:
    pieces = [bytes([number]) * 1000 for number in range(40)]
    cache = PieceCache(folder, 10_000)
    for age, content in enumerate(pieces[:10]):
        cache.put(piece(content), content)
        os.utime(folder / piece(content)[-32:], (1_000_000 + age, 1_000_000))
    assert cache.read(piece(pieces[0])) == pieces[0]
    for content in pieces[10:]:
        cache.put(piece(content), content)
        assert len(cached(folder)) <= 10
    assert len(cached(folder)) >= 8, "not more is removed than needed"
    assert cache.read(piece(pieces[1])) is None
    assert cache.read(piece(pieces[-1])) == pieces[-1]
    PieceCache(folder, 5_000).put(piece(ROWS), ROWS)
    assert len(cached(folder)) < 5, "another worker looks at the size when it first writes"


def test_recent_use_counts(folder: Path) -> None:
    cache = PieceCache(folder, 3_000)
    contents = [bytes([number]) * 1000 for number in range(4)]
    for age, content in enumerate(contents[:3]):
        cache.put(piece(content), content)
        os.utime(folder / piece(content)[-32:], (1_000_000 + age, 1_000_000))
    cache.read(piece(contents[0]))
    cache.put(piece(contents[3]), contents[3])
    assert cached(folder) == sorted(piece(content)[-32:] for content in (contents[0], contents[3]))


def test_a_disk_that_fills_up_bounds_it_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, contents = PieceCache(folder, 100_000), [bytes([number]) * 1000 for number in range(10)]
    usage = shutil._ntuple_diskusage(0, 0, free=2_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    for content in contents:
        cache.put(piece(content), content)
    assert len(cached(folder)) <= 6


def test_a_folder_that_cannot_be_written_switches_it_off(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.write_text("a file is in the way, which holds for root too")
    cache = PieceCache(folder, 100_000)
    cache.put(piece(ROWS), ROWS)
    assert not cache.is_on
    assert "stops caching state" in caplog.text
    cache.put(piece(ROWS), ROWS)
    cache.drop(piece(ROWS))
    assert cache.read(piece(ROWS)) is None
    assert len(caplog.records) == 1


def test_a_full_disk_switches_it_off_and_leaves_no_draft(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = PieceCache(folder, 100_000)
    cache.put(piece(b"1"), b"1")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    cache.put(piece(ROWS), ROWS)
    assert not cache.is_on
    assert sorted(path.name for path in folder.iterdir()) == sorted([piece(b"1")[-32:], "owner.lock"])


def test_a_folder_of_others_is_not_used(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    cache = PieceCache(folder, 100_000)
    cache.put(piece(ROWS), ROWS)
    assert not cache.is_on
    assert list(folder.iterdir()) == []


def test_others_cannot_read_it(folder: Path) -> None:
    PieceCache(folder, 100_000).put(piece(ROWS), ROWS)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / piece(ROWS)[-32:]).stat().st_mode & 0o777 == 0o600


def test_names_without_a_digest_are_not_cached(folder: Path) -> None:
    cache = PieceCache(folder, 100_000)
    for name in ("1/5.0.9", "1/", "1/0#aa", f"1/0#../{'a' * 29}"):
        cache.put(name, ROWS)
        assert cache.read(name) is None
    assert not folder.exists()


WORKER = """
import sys
from windowpane.spark.piece_cache import worker_cache
cache = worker_cache(100_000)
for line in sys.stdin:
    verb, name, number = line.split()
    content = bytes([int(number)]) * 1000
    if verb == "put":
        cache.put(name, content)
    print(cache.read(name) == content, flush=True)
"""


@pytest.mark.slow
def test_workers_share_it_and_the_next_one_removes_what_killed_ones_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker(executor: str) -> subprocess.Popen[str]:
        (tmp_path / executor).mkdir(exist_ok=True)
        environment = os.environ | {LOCAL_FOLDERS: f"{tmp_path / executor},/elsewhere"}
        return subprocess.Popen(
            [sys.executable, "-c", WORKER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(process: subprocess.Popen[str], verb: str, number: int) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{verb} {piece(bytes([number]) * 1000)} {number}\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    one, two, killed = worker("a"), worker("a"), worker("b")
    assert [ask(each, "put", 1) for each in (one, two, killed)] == ["True"] * 3
    assert ask(one, "put", 2) == "True"
    assert ask(two, "get", 2) == "True"
    killed.kill()
    killed.wait()
    (tmp_path / "c").mkdir()
    monkeypatch.setenv(LOCAL_FOLDERS, str(tmp_path / "c"))
    worker_cache.cache_clear()
    worker_cache(100_000).put(piece(ROWS), ROWS)
    worker_cache.cache_clear()
    assert [(tmp_path / name / FOLDER).is_dir() for name in "abc"] == [True, False, True]
    assert ask(two, "get", 1) == "True"
    for each in (one, two, killed):
        each.communicate()
