"""How a batch job reads a stream: what is there when it starts, from one place to the end, in one go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from windowpane.config import Stream
from windowpane.errors import ConfigError

AnyReader: TypeAlias = DataFrameReader | DataStreamReader
_OF_STREAMS = frozenset({
    "startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy",
    "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "maxfilespertrigger", "maxbytespertrigger",
    "latestfirst", "maxfileage", "cleansource", "sourcearchivedir", "filenameonly",
})  # fmt: skip
"""Options, in lower case, that say where a streaming query begins and how it goes on."""


@dataclass(frozen=True)
class History:
    """Read everything there is. Of Kafka, `since_us`: only records with a timestamp from then on; None: all."""

    since_us: int | None = None

    def options(self, stream: Stream, max_records: int) -> dict[str, str]:
        """Options for Spark's batch reader. `max_records`: of Kafka, how many one task reads at most."""
        if stream.format is None:
            raise ConfigError("MISSING_KEY", "a stream needs a format to run", 'for example format = "json"')
        own = {name: value for name, value in stream.spark_options.items() if name.lower() not in _OF_STREAMS}
        if not stream.source_format.is_messages:
            return own
        start = {"startingOffsets": "earliest"}
        if self.since_us is not None:
            # A partition without a record from then on has nothing to read.
            start = {
                "startingTimestamp": str(max(0, self.since_us // 1000)),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        return {"maxRecordsPerPartition": str(max_records)} | own | start


def reader_of(spark: SparkSession, history: History | None) -> AnyReader:
    return spark.readStream if history is None else spark.read
