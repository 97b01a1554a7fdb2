"""How a batch job reads a stream: what is there when it starts, from one place to the end, in one go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from windowpane.config import Stream
from windowpane.core.time_range import ALWAYS, TimeRange
from windowpane.errors import ConfigError
from windowpane.time import to_datetime

AnyReader: TypeAlias = DataFrameReader | DataStreamReader
_OF_STREAMS = frozenset({
    "startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy",
    "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "maxfilespertrigger", "maxbytespertrigger",
    "latestfirst", "maxfileage", "cleansource", "sourcearchivedir", "filenameonly",
})  # fmt: skip
"""Options, in lower case, that say where a streaming query begins and how it goes on."""


@dataclass(frozen=True)
class History:
    """Read everything there is, except what is known to be outside the event times `read`."""

    since_us: int | None = None
    """Of Kafka, only records with a timestamp from then on; None: all."""
    read: TimeRange = ALWAYS

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

    def of_days(self, frame: DataFrame, stream: Stream) -> DataFrame:
        """Without the folders of other days, if the stream declares which column names the day of its rows."""
        column = stream.eventtime.folders if stream.eventtime else None
        days = self._days()
        if column is None or days is None or column not in frame.columns:
            return frame
        return frame.where(F.to_date(F.col(f"`{column}`").cast("string")).between(*days))

    def _days(self) -> tuple[str, str] | None:
        """The first and the last day in UTC; None if there is none."""
        if self.read.from_us is None or self.read.to_us is None:
            return None
        try:
            first, last = to_datetime(self.read.from_us), to_datetime(self.read.to_us - 1)
        except OverflowError:
            return None
        return first.date().isoformat(), last.date().isoformat()


def reader_of(spark: SparkSession, history: History | None) -> AnyReader:
    return spark.readStream if history is None else spark.read
