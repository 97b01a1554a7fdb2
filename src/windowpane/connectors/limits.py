"""How much a micro-batch may take from a source: what the user has set for a stream, else what windowpane sets.

A limit is in the source's own unit: bytes of files, records of Kafka. Spark takes all there is up to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windowpane.config import Stream
from windowpane.errors import ConfigError
from windowpane.formats.sources import Unit

MEGABYTE = 1024 * 1024
FILE_BYTES = 256 * MEGABYTE
"""Of files, until batches show that more or less is better: seconds of work on two cores, whatever the format."""
KAFKA_RECORDS = 1_000_000
"""The same for Kafka."""


@dataclass(frozen=True)
class Limits:
    """The most that a micro-batch takes from each stream that has no limit of its own."""

    bytes: int = FILE_BYTES
    records: int | None = None

    @classmethod
    def scaled(cls, scale: float, max_rows: int | None) -> Limits:
        """So many times the usual ones; `max_rows` is the user's for Kafka, and stands."""
        records = max(round(KAFKA_RECORDS * scale), 1) if max_rows is None else max_rows
        return cls(max(round(FILE_BYTES * scale), 1), records)

    def options(self, stream: Stream) -> dict[str, str]:
        """The stream's options, and a limit for a batch on a backlog where they set none."""
        if stream.format is None:
            raise ConfigError("MISSING_KEY", "a stream needs a format to run", 'for example format = "json"')
        limit = stream.source_format.limit
        amount = None if limit is None or has_own_limit(stream) else self.of(limit.unit)
        own = {} if amount is None or limit is None else {limit.option: str(amount)}
        return own | stream.spark_options

    def of(self, unit: Unit) -> int | None:
        """The limit in a unit; None: no limit."""
        return self.bytes if unit == "bytes" else self.records


def has_own_limit(stream: Stream) -> bool:
    """Whether the user has set how much of a stream a micro-batch takes; no other limit may stand beside it."""
    limit = stream.source_format.limit
    return limit is not None and bool({name.lower() for name in stream.options} & limit.excluded_by)


def is_movable(stream: Stream, max_rows: int | None) -> bool:
    """Whether windowpane sets the stream's limit, and may move it."""
    limit = stream.source_format.limit
    if limit is None or has_own_limit(stream):
        return False
    return limit.unit == "bytes" or max_rows is None


def limit_text(limit: Mapping[str, int]) -> str:
    """`256 MB`, `1,000,000 records`, or both, of what a limit's `bytes` and `records` say."""
    parts = []
    if "bytes" in limit:
        small = limit["bytes"] < 10 * MEGABYTE
        parts.append(f"{limit['bytes'] / (1024 if small else MEGABYTE):,.0f} {'KB' if small else 'MB'}")
    return " and ".join(parts + ([f"{limit['records']:,} records"] if "records" in limit else []))
