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
        log, versions = self.checkpoint.log, self.checkpoint.tables
        batch_id = log.last_committed() + 1
        found = versions.at(name, batch_id) or self._take(name, batch_id)
        # A batch that may have run before keeps its version.
        if log.last_planned() < batch_id and self._is_due(name, found.taken_us):
            self._opened[name] = self._now_us()
            found = self._taken_again(name, batch_id) or found
        self._opened.setdefault(name, found.taken_us)
        schema = StructType.fromJson(json.loads(found.schema))
        return self.spark.read.schema(schema).parquet(versions.path(name, found.version, found.fence))

    def refresh(self, batch_id: int) -> bool:
        """Take new versions of tables that are due, for this batch and those after it. Whether there are any."""
        due = [name for name, tried_us in self._opened.items() if self._is_due(name, tried_us)]
        self._opened.update(dict.fromkeys(due, self._now_us()))
        taken = [self._taken_again(name, batch_id) for name in due]
        return any(taken)

    def _is_due(self, name: str, tried_us: int) -> bool:
        return self._now_us() - tried_us >= (self.config.tables[name].refresh_us or 0)

    def _taken_again(self, name: str, batch_id: int) -> TableVersion | None:
        """A new version of a table; None if it cannot be read, so that it is used as it was."""
        try:
            return self._take(name, batch_id)
        except PySparkException as failed:
            reason = str(failed).partition("\n")[0]
            _log.warning("table %s cannot be read again, and is used as it was: %s", name, reason)
            return None

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
