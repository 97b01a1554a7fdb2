"""Side records that can be read without Spark: those of sinks that can be read back, and those in the outbox."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from windowpane.checkpoint.addresses import local_path
from windowpane.checkpoint.transform import suffix_of
from windowpane.config import METRICS_ONLY, REINJECT, Sink
from windowpane.connectors.file_names import BATCH_FILE
from windowpane.core.side_records import record_text, to_records
from windowpane.errors import StateError
from windowpane.formats import sink_format
from windowpane.remote.access import Access
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.location import store_at
from windowpane.time import from_datetime

_FILES = ("json", "parquet")
"""Formats of files that can be read here."""


@dataclass(frozen=True)
class SideRecord:
    """A record of a side output."""

    content: Mapping[str, Any]
    sink: str = ""
    batch_id: int | None = None
    line: int = 0
    """Its number among the records of that batch, or among those that are alike, from 1."""
    run: str = ""
    """What else it takes to name it: the run, if that is not the first one, or a digest of what the record says."""

    @property
    def id(self) -> str:
        """Names the record: the sink, the batch and the line."""
        return f"{self.sink}:{self.batch_id}:{self.line}{f'@{self.run}' if self.run else ''}"

    @property
    def kind(self) -> str:
        return str(self.content.get("kind"))

    @property
    def reason(self) -> str:
        return str(self.content.get("reason"))

    @property
    def group(self) -> Mapping[str, Any]:
        found = self.content.get("group_key")
        return found if isinstance(found, dict) else {}

    @property
    def event_us(self) -> int | None:
        return instant_of(self.content.get("event_time"))

    @property
    def window(self) -> tuple[int, int] | None:
        found = self.content.get("window")
        if not isinstance(found, dict):
            return None
        start, end = instant_of(found.get("start")), instant_of(found.get("end"))
        return None if start is None or end is None else (start, end)

    def in_window(self, start_us: int, end_us: int) -> bool:
        at = self.event_us
        return self.window == (start_us, end_us) or (at is not None and start_us <= at < end_us)

    def in_group(self, group: Mapping[str, Any]) -> bool:
        return bool(self.group) and all(
            name in self.group and str(self.group[name]) == str(value) for name, value in group.items()
        )


@dataclass(frozen=True)
class SideSinks:
    """Which sinks of side rows can be read here."""

    readable: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    uncollected: list[str] = field(default_factory=list)
    """Kinds that are only counted."""


def side_sinks(asked: Asked) -> SideSinks:
    found = SideSinks()
    for kind, route in asked.config.transforms[asked.name].side_output.routes().items():
        sink = asked.config.sinks.get(route.last)
        if route.last in (METRICS_ONLY, REINJECT) or sink is None:
            found.uncollected.append(kind)
        elif is_readable(sink):
            found.readable.append(route.last)
        else:
            found.unreadable.append(route.last)
    return SideSinks(list(dict.fromkeys(found.readable)), list(dict.fromkeys(found.unreadable)), found.uncollected)


def is_readable(sink: Sink) -> bool:
    """Whether side records of a sink can be read back: files, tables, and messages that were sent in transactions."""
    kind = sink_format(sink.format)
    if kind.takes_back == "files":
        return sink.format in _FILES
    return kind.takes_back == "rows" or (sink.format == "kafka" and sink.delivery == "exactly_once")


def read_side_records(asked: Asked) -> Iterator[SideRecord]:
    """Records that sinks have, then those that wait in the outbox."""
    for name in side_sinks(asked).readable:
        yield from read_delivered(asked, name)
    for name, outbox in asked.checkpoint.outboxes().items():
        for batch_id in outbox.pending():
            try:
                pending = outbox.read(batch_id)
            except StateError:  # delivered meanwhile, or damaged
                continue
            texts = [*pending.texts]
            for batch in pending.batches:
                texts += map(record_text, to_records(batch, asked.plan.plan_id, asked.name))
            yield from _parsed(texts, name.partition("~")[0], pending.batch_id)


def read_delivered(asked: Asked, sink: str) -> Iterator[SideRecord]:
    """The records of a sink. Those of files are named by their place there, others by what they say."""
    if sink_format(asked.config.sinks[sink].format).takes_back == "files":
        return _of_files(asked, sink, _runs(asked))
    return _of_tables(asked, sink, _runs(asked))


def _runs(asked: Asked) -> list[str]:
    try:
        return asked.checkpoint.runs()
    except StateError:  # nothing has run
        return []


def _of_files(asked: Asked, name: str, runs: list[str]) -> Iterator[SideRecord]:
    declared = asked.config.sinks[name]
    path = declared.path or declared.spark_options["path"]
    folder = store_at(local_path(path) or path, asked.config.base_dir, asked.config.spark)
    for file in sorted(folder.names()):
        found = BATCH_FILE.fullmatch(file)
        if found and not file.startswith(".") and _is_side_of(found[1], asked.name) and found[2] in runs:
            # Going back to a savepoint begins another run, which has batches of the same numbers.
            run = "" if found[2] == runs[0] else found[2]
            yield from _parsed(_texts(folder.read(file) or b"", declared.format), name, int(found[3]), run)


def _texts(data: bytes, form: str) -> list[str]:
    """The records of a file, which has one column if it is not JSON."""
    if form == "json":
        return data.decode().splitlines()
    rows = pa.parquet.read_table(io.BytesIO(data))
    return [text or "" for text in rows.column(0).to_pylist()]


def _of_tables(asked: Asked, name: str, runs: list[str]) -> Iterator[SideRecord]:
    from windowpane.runtime.routes import build_sink  # noqa: PLC0415  # loads PySpark

    made = build_sink(asked.config, name, asked.config.sinks[name])
    access = Access.of_spark(asked.config.spark.spark_config)
    seen: Counter[str] = Counter()
    for number in range(1, asked.checkpoint.version + 1):
        lines = made.read_side(access, runs=runs, transform=f"{asked.name}{suffix_of(number)}") or []
        for batch_id, text in sorted(lines):
            for record in _parsed([text], name, batch_id):
                digest = hashlib.sha256(text.encode()).hexdigest()[:16]
                seen[digest] += 1
                yield replace(record, line=seen[digest], run=digest)


def _is_side_of(whose: str, transform: str) -> bool:
    """Files of side rows are called `hot.side`, those of a later version `hot~2.side`."""
    return whose.endswith(".side") and whose.removesuffix(".side").partition("~")[0] == transform


def _parsed(texts: list[str], sink: str, batch_id: int, run: str = "") -> Iterator[SideRecord]:
    for line, text in enumerate(texts, 1):
        try:
            content = json.loads(text)
        except ValueError:
            continue
        if isinstance(content, dict):
            yield SideRecord(content, sink, batch_id, line, run)


def instant_of(text: object) -> int | None:
    """Microseconds of a record's time; None if it has none."""
    try:
        return from_datetime(dt.datetime.fromisoformat(str(text))) if text else None
    except ValueError:
        return None
