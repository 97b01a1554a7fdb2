"""A query that is changed again and again while rows flow and its process is killed: `make torture-evolve SEED=7`.

Each change needs a hand-over. An oracle has all rows and the cuts that `windowpane history` shows, and says which
results each plan should have given: no window may be missing, and none be there twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.transform import Checkpoint

Row = Mapping[str, Any]
_MICROS = 1_000_000
_COMMAND = "from windowpane.cli import main; main()"
PIPELINE = """
[streams.s]
format = "json"
path = "in"
create = true
schema = "ts BIGINT, k STRING, v BIGINT"
eventtime = {{ column = "ts", type = "unixtimestamp_ms" }}
options = {{ maxFilesPerTrigger = 2 }}
[options]
eventtime.enabled = true
eventtime.late_tolerance = "3s"
max_future_skew = "off"
shards = 2
checkpoint = "state"
[transforms.q]
sql = "{sql}"
sink = "out"
[sinks.out]
format = "json"
path = "out"
[spark]
master = "local[2]"
"""


@dataclass(frozen=True)
class Version:
    """A query over windows of `size` seconds every `slide`, and what the oracle says of one of its groups."""

    sql: str
    size: int
    slide: int
    keys: tuple[str, ...]
    outputs: Mapping[str, Callable[[list[Row]], int]]
    where: Callable[[Row], bool] = lambda _: True

    def expected(self, rows: Iterable[Row], from_us: int | None, until_us: int | None) -> Counter[str]:
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in filter(self.where, rows):
            first = row["ts"] // 1000 // self.slide * self.slide
            for start in range(first, row["ts"] // 1000 - self.size, -self.slide):
                own = (from_us is None or start * _MICROS >= from_us) and (
                    until_us is None or start * _MICROS < until_us
                )
                if own:
                    groups.setdefault((start, *(row[key] for key in self.keys)), []).append(row)
        found = [
            dict(zip(("start", *self.keys), key, strict=True))
            | {name: compute(members) for name, compute in self.outputs.items()}
            for key, members in groups.items()
        ]
        return Counter(json.dumps(each, sort_keys=True) for each in found)


def _query(outputs: str, window: str, keys: str = "k", where: str = "") -> str:
    return (
        f"SELECT unix_seconds(window_start) AS start, {keys}, {outputs} FROM s {where} GROUP BY {keys} WINDOW {window}"
    )


def _sum(rows: list[Row]) -> int:
    return sum(int(row["v"]) for row in rows)


def _max(rows: list[Row]) -> int:
    return max(int(row["v"]) for row in rows)


VERSIONS = [
    Version(_query("count(*) AS n", "TUMBLING (SIZE 4 SECONDS)"), 4, 4, ("k",), {"n": len}),
    Version(_query("count(*) AS n, sum(v) AS s", "TUMBLING (SIZE 4 SECONDS)"), 4, 4, ("k",), {"n": len, "s": _sum}),
    Version(_query("count(*) AS n", "HOPPING (SIZE 9 SECONDS, SLIDE 3 SECONDS)"), 9, 3, ("k",), {"n": len}),
    Version(_query("count(*) AS n, max(v) AS m", "HOPPING (SIZE 6 SECONDS, SLIDE 2 SECONDS)", where="WHERE v > 2"),
            6, 2, ("k",), {"n": len, "m": _max}, lambda row: row["v"] > 2),
    Version(_query("count(*) AS n", "TUMBLING (SIZE 5 SECONDS)", keys="k, v"), 5, 5, ("k", "v"), {"n": len}),
    Version(_query("count(*) AS n", "TUMBLING (SIZE 4 SECONDS)"), 4, 4, ("k",), {"n": len}),
]  # fmt: skip
"""The last one is the first one again: its windows still have other ids."""


PATIENCE_SECONDS = 900
"""For the last run."""


class Torture:
    """One run in a folder."""

    def __init__(self, folder: Path, seed: int, files: int, versions: Sequence[Version] = VERSIONS) -> None:
        self.folder, self.rng, self.files = folder, random.Random(seed), files  # noqa: S311  # it shall repeat
        self.versions, self.rows = versions, list[Row]()
        (folder / "in").mkdir()

    def feed(self, count: int) -> None:
        """Files of rows that are never late."""
        for _ in range(count):
            first = len(self.rows)
            made = [
                {
                    "ts": 100 * number + self.rng.randrange(2_000),
                    "k": self.rng.choice("xyz"),
                    "v": self.rng.randrange(6),
                }
                for number in range(first, first + 40)
            ]
            draft = self.folder / "draft"
            draft.write_text("".join(json.dumps(row) + "\n" for row in made))
            draft.rename(self.folder / "in" / f"{first:08}.json")
            self.rows += made

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", _COMMAND, *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1", **os.environ}
        with (self.folder / "run.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603  # this interpreter, our own text
                self.command("run", "pipeline.toml", "--evolve", *arguments),
                cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def last_batch(self) -> int:
        ids = [int(path.stem) for path in (self.folder / "state/q/ledger").glob("*.json") if path.stem.isdigit()]
        return max(ids, default=-1)

    def kill_once(self, version: int) -> None:
        """Let the query process some batches, while rows come, and kill it at a random moment."""
        wanted = self.last_batch() + self.rng.randrange(1, 4)
        self.kill_when(version, lambda: self.last_batch() >= wanted, feeds=True)

    def kill_when(self, version: int, reached: Callable[[], bool], *, feeds: bool = False) -> None:
        """Run a version of the query, and kill it soon after something is reached. `feeds`: rows come meanwhile."""
        (self.folder / "pipeline.toml").write_text(PIPELINE.format(sql=self.versions[version].sql))
        process, until = self.start(), time.monotonic() + 240
        while not reached() and time.monotonic() < until and process.poll() is None:
            self.feed(1 if feeds else 0)
            time.sleep(0.7 if feeds else 0.1)
        if process.poll() is not None:
            raise SystemExit(f"the pipeline ended by itself:\n{(self.folder / 'run.log').read_text()[-4_000:]}")
        time.sleep(self.rng.random() * (1.0 if feeds else 0.1))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        sys.stderr.write(f"version {version}: killed after batch {self.last_batch()}\n")

    def count_open(self) -> int:
        """The versions that ran in the last batch."""
        ledger = Checkpoint(FolderStore(self.folder / "state" / "q")).ledger
        whole, versions = ledger.read_with_versions(self.last_batch())
        return sum(not each.ended for each in (versions or whole).values())

    def run(self) -> list[str]:
        """What is wrong; empty if nothing is."""
        self.feed(3)
        for version in range(len(self.versions)):
            for _ in range(self.rng.choice([1, 1, 2])):
                self.kill_once(version)
        self.feed(self.files)
        return self.finish()

    def finish(self) -> list[str]:
        """Run the last version to the end of the input. What is wrong then."""
        process = self.start("--drain")
        try:
            code = process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        return self.wrong() if code == 0 else [f"the last run ended with {code}"]

    def cuts(self) -> list[int]:
        done = subprocess.run(  # noqa: S603  # this interpreter, our own text
            self.command("history", "pipeline.toml", "--json"), cwd=self.folder, capture_output=True, check=True
        )
        plans = json.loads(done.stdout)["q"]
        return [plan["cut_us"] for plan in plans if plan["change"] == "hand_over"]

    def wrong(self) -> list[str]:
        cuts = self.cuts()
        if len(cuts) != len(self.versions) - 1:
            return [f"there were {len(cuts)} hand-overs, and not {len(self.versions) - 1}"]
        bounds: list[int | None] = [None, *cuts, None]
        wanted: Counter[str] = Counter()
        for number, version in enumerate(self.versions):
            wanted += version.expected(self.rows, bounds[number], bounds[number + 1])
        lines = [line for path in (self.folder / "out").glob("part-*.json") for line in path.read_text().splitlines()]
        got = Counter(json.dumps(json.loads(line), sort_keys=True) for line in lines)
        sys.stderr.write(f"{len(self.rows):,} rows, {wanted.total():,} results, cuts at {cuts}\n")
        found = [f"missing: {line} ({number}x)" for line, number in (wanted - got).items()]
        return found + [f"too many: {line} ({number}x)" for line, number in (got - wanted).items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--files", type=int, default=10, help="Files of 40 rows after the last change.")
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed  # noqa: S311
    sys.stderr.write(f"seed {seed}\n")
    with tempfile.TemporaryDirectory(prefix="windowpane-evolve-") as folder:
        torture = Torture(Path(folder), seed, given.files)
        wrong = torture.run()
        if wrong:
            kept = Path("out") / f"torture-evolve-{seed}.log"
            kept.parent.mkdir(exist_ok=True)
            shutil.copy(Path(folder) / "run.log", kept)
            sys.stderr.write(f"the output of the pipeline is in {kept}\n")
    sys.stderr.write("\n".join(wrong[:20]) + "\n" if wrong else "every window is there once\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
