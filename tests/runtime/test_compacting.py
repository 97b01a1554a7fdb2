"""Many small result files become few large ones: every row stays once, also if a process is killed on the way."""

from __future__ import annotations

import datetime as dt
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windowpane.errors import SinkError
from windowpane.runtime import compacting
from windowpane.runtime.compacting import compact_folder
from windowpane.runtime.compaction_groups import Bounds, Files

RUN, EARLIER = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
KILLED = """
import os, signal, sys
from pathlib import Path
from windowpane.runtime import compacting
exchange = compacting._exchange
def killing(left, right):
    if sys.argv[2] == "after":
        exchange(left, right)
    os.kill(os.getpid(), signal.SIGKILL)
compacting._exchange = killing
files = compacting.Files({"q"}, [sys.argv[3]], compacting.Bounds(3))
compacting.compact_folder(Path(sys.argv[1]), files)
"""


def name(batch: int, number: int = 0, *, whose: str = "q", run: str = RUN, ending: str = "json") -> str:
    return f"part-{whose}-{run}-{batch:012}-{number:05}.{ending}"


def files(last: int = 3, savepoints: tuple[int, ...] = (), **more: int) -> Files:
    return Files({"q", "q~2"}, [EARLIER, RUN], Bounds(last, savepoints), **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five batches, of which the last may be written again."""
    out = tmp_path / "out"
    out.mkdir()
    for batch in range(5):
        (out / name(batch)).write_text(f'{{"n": {batch}}}\n')
        (out / f".{name(batch)}.crc").write_text("old")
    return out


def rows(folder: Path) -> list[int]:
    found = [file for file in sorted(folder.iterdir()) if not file.name.startswith((".", "_"))]
    return [json.loads(line)["n"] for file in found for line in file.read_text().splitlines()]


def visible(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))


def test_files_become_one_that_is_called_like_the_last(folder: Path) -> None:
    assert compact_folder(folder, files()) == (5, 2)
    assert visible(folder) == [name(3), name(4)]
    assert rows(folder) == [0, 1, 2, 3, 4]
    assert not (folder / f".{name(3)}.crc").exists(), "the checksum of the file before"
    assert (folder / f".{name(4)}.crc").exists()
    assert [each.name for each in folder.parent.iterdir()] == ["out"]
    assert compact_folder(folder, files()) == (2, 2)


def test_no_file_spans_a_savepoint(folder: Path) -> None:
    assert compact_folder(folder, files(4, savepoints=(1,))) == (5, 2)
    assert visible(folder) == [name(1), name(4)]
    assert rows(folder) == [0, 1, 2, 3, 4]


def test_what_others_have_written_stays(folder: Path) -> None:
    for other in (name(0, whose="other"), name(0, run=RUN[:-1] + "9"), "mine.json", name(0, whose="q.side")):
        (folder / other).write_text('{"n": 9}\n')
    (folder / "_staging-x").mkdir()
    before = set(visible(folder))
    compact_folder(folder, files(4))
    assert set(visible(folder)) == (before - {name(batch) for batch in range(4)})


def test_runs_and_versions_have_their_own_files(folder: Path) -> None:
    for batch in (0, 9):
        (folder / name(batch, run=EARLIER)).write_text('{"n": 20}\n')
        (folder / name(batch, whose="q~2")).write_text('{"n": 30}')
    compact_folder(folder, files(4))
    assert visible(folder) == sorted([
        name(4), name(9, run=EARLIER), name(0, whose="q~2"), name(9, whose="q~2"),
    ]), "the last batch of the other version may be written again"  # fmt: skip
    assert rows(folder).count(20) == 2


def test_large_files_stay_as_they_are(folder: Path) -> None:
    (folder / name(2)).write_text('{"n": 2}\n' * 100)
    assert compact_folder(folder, files(4, target_bytes=1000)) == (5, 3)
    assert visible(folder) == [name(1), name(2), name(4)]


def test_a_line_without_end_does_not_swallow_the_next(folder: Path) -> None:
    (folder / name(0)).write_text('{"n": 0}')
    compact_folder(folder, files())
    assert rows(folder) == [0, 1, 2, 3, 4]


def test_headers_of_csv(tmp_path: Path) -> None:
    for batch in range(3):
        (tmp_path / name(batch, ending="csv")).write_text(f"n,k\n{batch},a\n")
    compact_folder(tmp_path, files(), header=True)
    assert (tmp_path / name(2, ending="csv")).read_text() == "n,k\n0,a\n1,a\n2,a\n"


def test_parquet(tmp_path: Path) -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    tables = [pa.table({"n": [batch], "at": pa.array([at], pa.timestamp("us", "UTC"))}) for batch in range(3)]
    tables.append(pa.table({"n": [3], "at": pa.array([at], pa.timestamp("us", "UTC")), "gained": ["x"]}))
    for batch, table in enumerate(tables):
        pq.write_table(table, tmp_path / name(batch, ending="snappy.parquet"), use_deprecated_int96_timestamps=True)
    assert compact_folder(tmp_path, files()) == (4, 2)
    merged = pq.read_table(tmp_path / name(2, ending="snappy.parquet"))
    assert merged.to_pydict() == {"n": [0, 1, 2], "at": [at] * 3}
    assert merged.schema.field("at").type == pa.timestamp("us", "UTC")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_process_leaves_every_row_once(folder: Path, when: str) -> None:
    script = [sys.executable, "-c", KILLED, str(folder), when, RUN]
    assert subprocess.run(script, check=False).returncode == -signal.SIGKILL
    assert rows(folder) == [0, 1, 2, 3, 4]
    assert compact_folder(folder, files())[1] == 2
    assert rows(folder) == [0, 1, 2, 3, 4]
    assert [each.name for each in folder.parent.iterdir()] == ["out"]


def exchange_after(act: Callable[[Path], object]) -> Callable[[Path, Path], None]:
    real = compacting._exchange

    def exchange(left: Path, right: Path) -> None:
        act(left)
        real(left, right)

    return exchange


def test_what_comes_meanwhile_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def arrive(at: Path) -> None:
        (at / name(0, whose="other")).write_text('{"n": 77}\n')

    monkeypatch.setattr(compacting, "_exchange", exchange_after(arrive))
    compact_folder(folder, files())
    assert sorted(rows(folder)) == [0, 1, 2, 3, 4, 77]


def test_a_file_system_that_cannot_exchange_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "_EXCHANGE", 1 << 20)
    with pytest.raises(SinkError, match="cannot exchange two folders"):
        compact_folder(folder, files())
    assert rows(folder) == [0, 1, 2, 3, 4]
    assert [each.name for each in folder.parent.iterdir()] == ["out"]
