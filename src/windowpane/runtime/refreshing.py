"""Static tables of a transform. Those with `refresh` are copied into the checkpoint, anew whenever they are due."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from windowpane.checkpoint.table_versions import TableVersion
from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import PipelineConfig
from windowpane.connectors.sources import open_table

_log = logging.getLogger("windowpane")


@dataclass
class StaticTables:
    """Opens tables for the next batch, and takes new versions of them between batches."""

    spark: SparkSession
    config: PipelineConfig
    checkpoint: Checkpoint
    clock: Callable[[], float] = time.time
    _opened: dict[str, int] = field(default_factory=dict)
    """Tables with `refresh` that the query reads, and when they were last tried to be read again."""

    def open(self, name: str) -> DataFrame:
        """A table as the next batch reads it."""
        if self.config.tables[name].refresh_us is None:
            return open_table(self.spark, self.config.tables[name], self.config.base_dir)
        batch_id = self.checkpoint.log.last_committed() + 1
        versions = self.checkpoint.tables
        found = versions.at(name, batch_id) or self._take(name, batch_id)
        self._opened.setdefault(name, found.taken_us)
        schema = StructType.fromJson(json.loads(found.schema))
        return self.spark.read.schema(schema).parquet(versions.path(name, found.version, found.fence))

    def refresh(self, batch_id: int) -> bool:
        """Take new versions of tables that are due, for this batch and those after it. Whether there are any."""
        now_us, changed = self._now_us(), False
        for name, tried_us in self._opened.items():
            if now_us - tried_us < (self.config.tables[name].refresh_us or 0):
                continue
            self._opened[name] = now_us
            try:
                self._take(name, batch_id)
            except PySparkException as failed:
                reason = str(failed).partition("\n")[0]
                _log.warning("table %s cannot be read again, and is used as it was: %s", name, reason)
                continue
            changed = True
        return changed

    def used(self, batch_id: int) -> dict[str, int]:
        """The version of each table that a batch reads."""
        found = {name: self.checkpoint.tables.at(name, batch_id) for name in self._opened}
        return {name: version.version for name, version in found.items() if version is not None}

    def _take(self, name: str, batch_id: int) -> TableVersion:
        versions = self.checkpoint.tables
        before = versions.of(name)
        frame = open_table(self.spark, self.config.tables[name], self.config.base_dir)
        number = before[-1].version + 1 if before else 1
        frame.write.mode("overwrite").parquet(versions.path(name, number, versions.fence))
        taken = TableVersion(number, batch_id, self._now_us(), frame.schema.json(), versions.fence)
        versions.add(name, taken)
        return taken

    def _now_us(self) -> int:
        return int(self.clock() * 1_000_000)
