"""How much a micro-batch may take from a source: what the user has set for a stream, else what windowpane sets.

A limit is in the source's own unit: bytes of files, records of Kafka. Spark takes everything there is up to it.
"""

from __future__ import annotations

from windowpane.config import Stream
from windowpane.errors import ConfigError

FILE_BYTES = 256 * 1024 * 1024
"""Seconds of work on two cores, so that the fixed cost of a micro-batch, about half a second, matters little.

On a backlog of 657 MB of parquet (80 million rows), a limit of 1 GB was 10 % faster and took one batch of 14 s in place
of three of 3 to 6 s. docs/architecture.md has the measurements.
"""


def limited_options(stream: Stream, max_records: int) -> dict[str, str]:
    """The stream's options, with a limit for its micro-batches unless they set one. `max_records` is that of Kafka."""
    if stream.format is None:
        raise ConfigError("MISSING_KEY", "a stream needs a format to run", 'for example format = "json"')
    limit, options = stream.source_format.limit, stream.spark_options
    if limit is None or {name.lower() for name in options} & limit.excluded_by:
        return options
    amount = FILE_BYTES if limit.unit == "bytes" else max_records
    return {limit.option: str(amount)} | options
