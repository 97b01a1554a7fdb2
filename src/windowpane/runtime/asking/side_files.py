"""Side records that can be read without Spark: files of json sinks, and rows that wait in the outbox."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windowpane.checkpoint.addresses import local_path
from windowpane.config import METRICS_ONLY, REINJECT
from windowpane.connectors.file_names import BATCH_FILE
from windowpane.core.side_records import record_text, to_records
from windowpane.errors import StateError
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.location import store_at
from windowpane.time import from_datetime


@dataclass(frozen=True)
class SideRecord:
    """A record of a side output."""

    content: Mapping[str, Any]
    sink: str = ""
    batch_id: int | None = None
    line: int = 0
    """Its number among the records of that batch, from 1."""

    @property
    def id(self) -> str:
        """Names the record: the sink, the batch and the line."""
        return f"{self.sink}:{self.batch_id}:{self.line}"

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
        elif sink.format == "json":
            found.readable.append(route.last)
        else:
            found.unreadable.append(route.last)
    return SideSinks(list(dict.fromkeys(found.readable)), list(dict.fromkeys(found.unreadable)), found.uncollected)


def read_side_records(asked: Asked) -> Iterator[SideRecord]:
    """Delivered records of json sinks, then those that wait in the outbox."""
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
    """The records of a json sink."""
    return _of_files(asked, sink, _runs(asked))


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
            yield from _parsed((folder.read(file) or b"").decode().splitlines(), name, int(found[3]))


def _is_side_of(whose: str, transform: str) -> bool:
    """Files of side rows are called `hot.side`, those of a later version `hot~2.side`."""
    return whose.endswith(".side") and whose.removesuffix(".side").partition("~")[0] == transform


def _parsed(texts: list[str], sink: str, batch_id: int) -> Iterator[SideRecord]:
    for line, text in enumerate(texts, 1):
        try:
            content = json.loads(text)
        except ValueError:
            continue
        if isinstance(content, dict):
            yield SideRecord(content, sink, batch_id, line)


def instant_of(text: object) -> int | None:
    """Microseconds of a record's time; None if it has none."""
    try:
        return from_datetime(dt.datetime.fromisoformat(str(text))) if text else None
    except ValueError:
        return None
