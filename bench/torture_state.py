"""A pipeline with large state, killed with SIGKILL while it merges and while it closes a window, and resumed.

`make torture-state GROUPS=5000000`. All the time, the cache of state on the executor is damaged. The results must be
those that follow from the input, each of them once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.torture import run_to_end, start
from windowpane.core.rows import joined
from windowpane.core.run_content import Content
from windowpane.core.runs import Runs

FILES = 14
SHARDS = 2
PIPELINE = """
[streams.s]
format = "parquet"
path = "data"
options = { maxFilesPerTrigger = 1 }
eventtime = { column = "ts", type = "unixtimestamp_s" }

[options]
eventtime = { enabled = true }
max_future_skew = "off"
trigger = "available_now"
shards = 2

[transforms.q]
sql = '''SELECT name, count(*) AS n, sum(v) AS s, window_start FROM s GROUP BY tumblingwindow('hh', 1), name'''
sink = "out"

[sinks.out]
format = "parquet"
path = "out"

[spark]
master = "local[2]"
config = { "spark.local.dir" = "LOCAL", "spark.driver.memory" = "2g" }
"""


def make_job(folder: Path, groups: int) -> None:
    """Every group in the first hour, some of them twice; then one row that closes the hour, and one more batch."""
    (folder / "data").mkdir(parents=True)
    (folder / "local").mkdir()
    keys = np.random.default_rng(3).permutation(groups)
    parts = [*np.array_split(keys, FILES), keys[::100], np.array([0]), np.array([0])]
    for number, part in enumerate(parts):
        ts = np.full(len(part), 1800 if number <= FILES else 3 * 3600)
        rows = pa.table({"name": pc.binary_join_element_wise("the group ", pa.array(part).cast("string"), ""),
                         "v": part % 1000, "ts": ts})  # fmt: skip
        path = folder / "data" / f"{number:05}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    (folder / "pipeline.toml").write_text(PIPELINE.replace("LOCAL", str(folder / "local")), encoding="utf-8")


def merging_batches(groups: int) -> list[int]:
    """The micro-batches in which a shard merges sorted runs of its state."""
    rows = groups // FILES // SHARDS
    empty = pa.RecordBatch.from_pydict({"key": pa.array([], pa.int64())})
    runs, found = Runs(Content(joined, ("key",)), lambda _name: empty), []
    for batch in range(FILES):
        before = sum(1 for _ in runs.pieces())
        runs.append(pa.RecordBatch.from_pydict({"key": np.arange(batch * rows, (batch + 1) * rows)}))
        if sum(1 for _ in runs.pieces()) <= before:
            found.append(batch)
    return found


class Vandal:
    """Damages the executor's cache of state, in a thread."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._local, self._rng, self._done = folder / "local", random.Random(seed), threading.Event()  # noqa: S311
        self.damaged = 0

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Vandal]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._done.set()
            thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._rng.uniform(0.01, 0.2)):
            for file in self._local.glob("blockmgr-*/windowpane-state/*"):
                if len(file.name) == 32 and self._rng.random() < 0.5:
                    with contextlib.suppress(OSError):
                        self._damage(file)
                        self.damaged += 1

    def _damage(self, file: Path) -> None:
        """A worker that has mapped the file keeps what it has: the file is replaced, not changed."""
        content, draft = bytearray(file.read_bytes()), file.with_name(".vandal")
        content[self._rng.randrange(len(content))] ^= 1
        match self._rng.randrange(4):
            case 0:
                file.unlink()
            case 1:
                shutil.rmtree(file.parent)
            case 2:
                draft.write_bytes(content[: len(content) // 2])
                draft.replace(file)
            case 3:
                draft.write_bytes(content)
                draft.replace(file)


def kill_when(folder: Path, begun: Callable[[], bool], delay: float) -> bool:
    """Start, wait for an event and a moment longer, and kill. False if the pipeline was done before that."""
    process = start(folder)
    while process.poll() is None and not begun():
        time.sleep(0.01)
    with contextlib.suppress(subprocess.TimeoutExpired):
        if process.wait(delay) == 0:
            return False
        raise RuntimeError(f"the pipeline failed by itself: {(folder / 'run.log').read_text()[-3000:]}")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


def differences(folder: Path, groups: int) -> list[str]:
    """What is wrong with the results."""
    found = pq.read_table(sorted((folder / "out").glob("part-*"))).sort_by([("window_start", "ascending")])
    first = found.filter(pc.equal(found.column("window_start"), found.column("window_start")[0]))
    keys = np.sort(np.random.default_rng(3).permutation(groups)[::100])
    numbers = pc.utf8_slice_codeunits(first.column("name"), len("the group ")).cast("int64").to_numpy()
    order = np.argsort(numbers)
    wanted = np.arange(groups)
    times = 1 + np.isin(wanted, keys)
    lines = []
    if found.num_rows != groups + 1:
        lines.append(f"{found.num_rows} results, not {groups + 1}")
    if not np.array_equal(numbers[order], wanted):
        lines.append("groups are missing or doubled")
    elif not np.array_equal(first.column("n").to_numpy()[order], times):
        lines.append("counts are wrong")
    elif not np.array_equal(first.column("s").to_numpy()[order], times * (wanted % 1000)):
        lines.append("sums are wrong")
    left = [*(folder / "state" / "q" / "results").iterdir(), *folder.glob("out/_staging*")]
    return lines + [f"{path.name} is left" for path in left]


def torture_state(folder: Path, groups: int, seed: int) -> tuple[int, int, list[str]]:
    """How many kills came, how many cached pieces were damaged, and what is wrong in the end."""
    make_job(folder, groups)
    spark, ledger, results = (folder / "state" / "q" / name for name in ("spark", "ledger", "results"))
    closing = FILES + 1

    def begun(batch: int) -> Callable[[], bool]:
        return (spark / "offsets" / str(batch)).exists

    def emitting() -> bool:
        return results.is_dir() and any(file.stat().st_size for file in results.iterdir())

    def written() -> bool:
        return (ledger / f"{closing:012}.json").exists()

    with Vandal(folder, seed).at_work() as vandal:
        kills = sum(kill_when(folder, begun(batch), 0.3) for batch in merging_batches(groups))
        at_the_close = ((begun(closing), 0.4), (emitting, 0.0), (written, 0.0))
        kills += sum(kill_when(folder, when, delay) for when, delay in at_the_close)
        run_to_end(folder)
    return kills, vandal.damaged, differences(folder, groups)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills, damaged, wrong = torture_state(Path(folder), given.groups, given.seed)
    print(f"{kills} kills, {damaged} cached pieces damaged")
    print("\n".join(wrong) or "the results are right, each of them is there once")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
