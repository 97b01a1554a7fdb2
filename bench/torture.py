"""A pipeline that is killed with SIGKILL again and again, at random points, until it is done; then its output is
compared with that of a run which nobody disturbed. `make torture KILLS=50 SEED=7`; a seed repeats its kills. With
`SOURCE=kafka` the same rows come from two partitions of a real broker; with `STORE=s3` or `hdfs`, input, checkpoint
and output are on such a server. `AWAY=20` takes the sinks of results away for up to 20 seconds, again and again.

Beside it runs a query with side outputs of every kind, error rows read again: each row of the input must be in its
results or in one of its side outputs, and that once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bench.torture_places import IN_FOLDER, Place, opened
from bench.torture_reader import reading
from bench.torture_sinks import going_away, without_patience

ROOT = Path(__file__).resolve().parents[1]
FIRST_FILE_TIME = 1_700_000_000
FILES = """
[streams.s]
format = "json"
path = "data"
options = { maxFilesPerTrigger = 1 }
"""
TOPIC = """
[streams.s]
format = "kafka"
options = {{ subscribe = "{topic}", startingOffsets = "earliest", maxOffsetsPerTrigger = 52, \
"kafka.bootstrap.servers" = "{address}" }}
"""
PIPELINE = """
schema = "ts BIGINT, k STRING, v BIGINT, id BIGINT, key BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_ms", strict = true }

[options]
eventtime = { enabled = true, late_tolerance = "2s" }
max_future_skew = "off"
checkpoint = "state"
trigger = "available_now"
shards = 2

[transforms.q]
sql = '''SELECT k, count(*) AS n, sum(v) AS s, window_start, window_id, emit_epoch, is_final FROM s
GROUP BY hoppingwindow('ss', 6, 3), k EMIT ON UPDATE'''
sink = "results"
side_output.late = { sink = "dlq", include_original = true }
side_output.error = { sink = "dlq", include_original = true }

[transforms.every]
sql = "SELECT k, collect_list(id) AS ids, window_start FROM s WHERE v >= 0 GROUP BY tumblingwindow('ss', 3), k"
sink = "every"
dedupe = { key = ["key"], within = "1h" }
limits = { max_groups = 4 }
[transforms.every.side_output]
late = { sink = "rest", include_original = true }
error = { sink = "reinject", max_reinjections = 1, then = "rest", include_original = true }
duplicate = { sink = "rest", include_original = true }
evicted = { sink = "rest", include_original = true }

[sinks.every]
format = "json"
path = "every"
[sinks.rest]
format = "json"
path = "rest"
[sinks.results]
format = "json"
path = "results"
[sinks.dlq]
format = "json"
path = "dlq"
[spark]
master = "local[2]"
"""
Source: TypeAlias = Callable[[list[str]], str]
"""Brings the lines of a job where the pipeline reads them, and gives the beginning of its [streams.s] table."""
RUN = """
import sys
from windowpane.errors import StateError
from windowpane.runtime import Pipeline
try:
    running = Pipeline.from_toml(sys.argv[1]).start()
except StateError as refused:
    sys.exit(0 if refused.code == "CHECKPOINT_FINISHED" else str(refused))
running.wait()
running.drain()
"""
Output = dict[str, Counter[str]]


@dataclass
class Verdict:
    """`killed`: at which batch each kill came. `differences` are lines to read, none when all is well."""

    killed: list[int]
    differences: list[str]


def from_files(_lines: list[str]) -> str:
    """The files of the job themselves."""
    return FILES


@contextlib.contextmanager
def from_kafka() -> Iterator[Source]:
    """A topic of two partitions, which all jobs read: the records are the same to the last detail."""
    from confluent_kafka import Producer  # noqa: PLC0415  # only for this source
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    from scripts.servers import Kafka, running  # noqa: PLC0415

    with running(Kafka) as broker:
        filled: list[str] = []

        def fill(lines: list[str]) -> str:
            if filled != lines:
                client = AdminClient({"bootstrap.servers": broker.address})
                client.create_topics([NewTopic("rows", 2, 1)])["rows"].result(30)
                producer = Producer({"bootstrap.servers": broker.address})
                for number, line in enumerate(lines):
                    producer.produce("rows", line, partition=number % 2)
                if producer.flush(30):
                    raise RuntimeError("the broker does not take the rows")
                filled.extend(lines)
            return TOPIC.format(topic="rows", address=broker.address)

        yield fill


def make_job(folder: Path, seed: int, files: int, source: Source = from_files, place: Place = IN_FOLDER) -> Path:
    """A pipeline and its input: out of order, some of it late, some of it broken."""
    rng = random.Random(seed)  # noqa: S311  # repeatable is the point
    (folder / "data").mkdir(parents=True)
    for number in range(files):
        rows = [make_row(rng, number, 50 * number + each) for each in range(50)]
        path = folder / "data" / f"{number:06}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + f"{{broken {number}\n", encoding="utf-8")
        os.utime(path, (FIRST_FILE_TIME + number,) * 2)
    stream = source(_lines(folder / "data"))
    toml = place.prepare(folder, stream.rstrip() + PIPELINE + _jars(source))
    (folder / "pipeline.toml").write_text(toml, encoding="utf-8")
    return folder


def _jars(source: Source) -> str:
    if source is from_files:
        return ""
    from scripts.servers import connector_jars  # noqa: PLC0415

    return f"jars = {json.dumps(connector_jars())}\n"


def make_row(rng: random.Random, file: int, number: int) -> dict[str, object]:
    """`id` is a row's own, `key` may be that of a row before it."""
    key = rng.randrange(number + 1) if rng.random() < 0.1 else number
    ts = 2000 * file + rng.randrange(-8000, 2000)
    return {"ts": ts, "k": f"k{rng.randrange(6)}", "v": rng.randrange(100), "id": number, "key": key}


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The pipeline in a process group of its own, its output in a file beside it.

    Its file names the jars that it needs. Those that a test run has set would take their place.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    # A process lives for seconds here: Java's second compiler would cost more than its code saves.
    environment.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
    with (folder / "run.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603  # this interpreter, our own text
            [sys.executable, "-c", RUN, str(folder / "pipeline.toml")],
            cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def run_to_end(folder: Path) -> None:
    """Undisturbed."""
    process = start(folder)
    code = process.wait()
    if code != 0:
        raise RuntimeError(f"the pipeline ended with {code}: {(folder / 'run.log').read_text()[-3000:]}")


def kill_at(folder: Path, batch: int, delay: float, *, whole_group: bool, place: Place = IN_FOLDER) -> bool:
    """Start, wait for Spark to begin this batch and a moment longer, kill. False when it was done before that."""
    process = start(folder)
    while process.poll() is None and not place.has_begun(folder, batch):
        time.sleep(place.poll_seconds)
    with contextlib.suppress(subprocess.TimeoutExpired):
        if process.wait(delay) == 0:
            return False
        raise RuntimeError(f"the pipeline failed by itself: {(folder / 'run.log').read_text()[-3000:]}")
    if whole_group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()  # Spark's own process notices and ends, a little later
    process.wait()
    return True


def go_back(folder: Path, name: str) -> None:
    """Take a savepoint of what the kill has left, and go back to it: its batches run again under another identity."""
    for command in (["savepoint", name], ["reset", "--to", name, "--yes"]):
        done = subprocess.run(  # noqa: S603  # this interpreter, our own text
            [sys.executable, "-m", "windowpane", *command], cwd=folder, capture_output=True, text=True, check=False
        )
        if "CHECKPOINT_FINISHED" in done.stderr:  # the kill came during the graceful end
            return
        if done.returncode != 0:
            raise RuntimeError(f"windowpane {command[0]} ended with {done.returncode}: {done.stderr}")


def pause(folder: Path, place: Place) -> list[str]:
    """Stop the process when it runs, let another one take over and end, let the first one go on. It must give up."""
    away = start(folder)
    while away.poll() is None and not place.is_running(folder, away.pid):
        time.sleep(place.poll_seconds)
    stopped = _family(away.pid)
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        place.hide_lock(folder)
        run_to_end(folder)
    finally:
        for process in reversed(stopped):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
    code = away.wait(120)
    told = "LEASE_LOST" in (folder / "run.log").read_text(encoding="utf-8", errors="replace")
    return [] if code and told else [f"the process that was away ended with {code}, and said nothing of its lease"]


def _family(process: int) -> list[int]:
    """A process, Spark's JVM, which has a session of its own, and the workers."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    below = [int(child) for path in children for child in path.read_text().split()]
    return [process, *(each for child in below for each in _family(child))]


def torture(
    folder: Path,
    kills: int,
    seed: int,
    files: int = 10,
    source: Source = from_files,
    *,
    place: Place = IN_FOLDER,
    pausing: bool = False,
    going_back: bool = False,
    away_seconds: float = 0,
    calm: Path | None = None,
) -> Verdict:
    """Run twice, once undisturbed in a folder and once killed; the files that both leave must hold the same rows.

    A reader looks at the files all the time, and must see each as a whole.

    `pausing`: at last the process is stopped for so long that another one takes over. `going_back`: after each kill,
    the pipeline goes back to a savepoint of what is left. `away_seconds`: how long sinks of results are away at most,
    again and again until the last run. `calm`: the folder of an undisturbed run of the same seed and files.
    """
    rng = random.Random(seed)  # noqa: S311  # repeatable is the point
    calm = calm or calm_run(folder / "calm", seed, files, source)
    killed = make_job(folder / "killed", seed, files, source, place)
    points = sorted(rng.randrange(files - 3 if away_seconds else files) for _ in range(kills))
    came: list[int] = []
    cut: list[str] = []
    with reading(killed, place, cut):
        with _sinks(killed, rng, away_seconds):
            _kill(killed, points, came, rng, place, going_back=going_back)
        paused = pause(killed, place) if pausing else []
        if not pausing:
            run_to_end(killed)
    place.bring_back(killed)
    accounts = [f"{run.name}: {line}" for run in (calm, killed) for line in account(run)]
    return Verdict(came, [*cut, *paused, *compare(output(calm), output(killed)), *accounts, *unfinished(killed)])


def _kill(job: Path, points: list[int], came: list[int], rng: random.Random, place: Place, *, going_back: bool) -> None:
    """Kill in each of these micro-batches, and note it in `came`, until the pipeline is done."""
    for number, point in enumerate(points, 1):
        print(f"  kill {number} of {len(points)}, in micro-batch {point}", flush=True)
        if not kill_at(job, point, rng.uniform(0, 1.2), whole_group=rng.random() < 0.8, place=place):
            return
        came.append(point)
        if going_back:
            go_back(job, f"kill-{number}")


def _sinks(job: Path, rng: random.Random, away_seconds: float) -> contextlib.AbstractContextManager[None]:
    if not away_seconds:
        return contextlib.nullcontext()
    file = job / "pipeline.toml"
    file.write_text(without_patience(file.read_text(encoding="utf-8")), encoding="utf-8")
    return going_away(job, rng, away_seconds)


def calm_run(folder: Path, seed: int, files: int, source: Source = from_files) -> Path:
    """A run that nobody disturbs."""
    job = make_job(folder, seed, files, source)
    run_to_end(job)
    return job


def output(folder: Path) -> Output:
    """The rows of every batch of every sink. The machine's clock is left out."""
    found: Output = {}
    for sink in ("results", "dlq"):
        for path in sorted((folder / sink).glob("part-*")):
            batch = found.setdefault(f"{sink}/{path.name.rsplit('-', 2)[1]}", Counter())
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                row.pop("processing_time", None)
                batch[json.dumps(row, sort_keys=True)] += 1
    return found


def account(folder: Path) -> list[str]:
    """Every line of the input against the union of results and side outputs."""
    read = Counter(line if line.startswith("{broken") else json.loads(line)["id"] for line in _lines(folder / "data"))
    found = Counter(id_ for line in _lines(folder / "every") for id_ in json.loads(line)["ids"])
    kinds: Counter[str] = Counter(main=found.total())
    for line in _lines(folder / "rest"):
        record = json.loads(line)
        kinds[record["kind"]] += 1
        event = record["original_event"]
        found[event["_corrupt_record"] if "_corrupt_record" in event else event["id"]] += 1
    lines = [f"row {row} is lost" for row in (read - found).elements()]
    lines += [f"row {row} is there too often" for row in (found - read).elements()]
    missing = {"main", "late", "error", "duplicate", "evicted"} - kinds.keys()
    return lines + [f"there are no {kind} rows: {dict(kinds)}" for kind in sorted(missing)]


def _lines(folder: Path) -> list[str]:
    files = sorted(path for path in folder.glob("*.json") if not path.name.startswith((".", "_")))
    return [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def compare(wanted: Output, got: Output) -> list[str]:
    lines = []
    for batch in sorted(wanted.keys() | got.keys()):
        before, after = wanted.get(batch, Counter()), got.get(batch, Counter())
        lines += [f"{batch}: lost {row}" for row in (before - after).elements()]
        lines += [f"{batch}: doubled or wrong {row}" for row in (after - before).elements()]
    return lines


def unfinished(folder: Path) -> list[str]:
    """What should not be left lying about."""
    outboxes = ("state/*/outbox/*/*.side*", "state/*/results-outbox/*/*.arrow")
    patterns = ("*/_staging*", *outboxes, "state/*/reinject/*/*.json")
    left = [path for pattern in patterns for path in folder.glob(pattern)]
    return [f"{path.relative_to(folder)} is left" for path in left]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--source", choices=("files", "kafka"), default="files")
    parser.add_argument("--store", choices=("folder", "s3", "hdfs"), default="folder")
    parser.add_argument("--pause", action="store_true", help="at last stop the process until another one takes over")
    parser.add_argument(
        "--savepoints", action="store_true", help="after each kill, go back to a savepoint of what is left"
    )
    parser.add_argument("--away", type=float, default=0, help="sinks of results are away for so many seconds at most")
    given = parser.parse_args()
    if given.away and given.store != "folder":
        parser.error("sinks go away with --store folder")
    if given.source == "kafka" and given.store != "folder":
        parser.error("rows from Kafka go with --store folder")
    seed = random.randrange(10**6) if given.seed is None else given.seed  # noqa: S311
    print(f"{given.kills} kills, SEED={seed}, rows from {given.source}, store {given.store}", flush=True)
    brought = from_kafka() if given.source == "kafka" else contextlib.nullcontext(from_files)
    with tempfile.TemporaryDirectory() as folder, brought as source, opened(given.store) as there:
        verdict = torture(
            Path(folder), given.kills, seed, given.files, source,
            place=there, pausing=given.pause, going_back=given.savepoints, away_seconds=given.away,
        )  # fmt: skip
    print(f"killed at batches {verdict.killed}")
    print("\n".join(verdict.differences) or "the output is that of the undisturbed run, every row is there once")
    return 1 if verdict.differences else 0


if __name__ == "__main__":
    sys.exit(main())
