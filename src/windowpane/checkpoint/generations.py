"""Generations of Spark's own checkpoint: `windowpane rescale` makes the next one beside the one in use.

Spark's state has a fixed number of partitions. So another number of shards needs new state, in a folder of its own,
with the offsets of the old one. `plan.json`, or `job.json` of a job of several transforms, names the generation in
use, and so replaces both in one step.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from windowpane.checkpoint.jobs import JobFile, JobRecord
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.plan_record import PlanFile, PlanRecord
from windowpane.checkpoint.store import Store, corrupt

WORK = "rescale"
"""The folder for what a rescale needs until it is done."""
_FOLDER = re.compile(r"spark(-\d+)?")
_SNAPSHOT = re.compile(r"(\.?)1(\.zip(\.crc)?)")
_PARTITIONS, _STATE = "spark.sql.shuffle.partitions", "spark.sql.streaming.stateStore."


def spark_folder(generation: int) -> str:
    return f"spark-{generation}" if generation else "spark"


def is_spark_folder(name: str) -> bool:
    """Whether a folder of this name in a checkpoint is one of Spark's, in use or not."""
    return _FOLDER.fullmatch(name) is not None


def remove_others(store: Store, used: str | None) -> None:
    """Remove what a rescale has left: all generations but the one in use. None: this one too."""
    for name in store.names():
        if name == WORK or (is_spark_folder(name) and name != used):
            store.clear(name)


@dataclass(frozen=True)
class NextGeneration:
    """The generation after that of `record`, for `shards` shards. Nothing of it counts before `use`."""

    store: Store
    record: PlanRecord | JobRecord
    shards: int

    @property
    def before(self) -> str:
        return spark_folder(self.record.generation)

    @property
    def generation(self) -> int:
        """At least the fence of this process: no other one has made or will remove a folder of this number."""
        return max(self.record.generation + 1, self.store.fence)

    @property
    def folder(self) -> str:
        return spark_folder(self.generation)

    @property
    def path(self) -> str:
        """For Spark."""
        return self.store.spark_path(self.folder)

    def begin(self) -> None:
        """An empty folder with the identity of the query."""
        self.store.clear(self.folder)
        self.store.copy(f"{self.before}/metadata", f"{self.folder}/metadata")

    def take_up_logs(self) -> None:
        """Spark has written the state in its first batch here. Make it the state after the last committed batch."""
        log = OffsetLog(self.store.below(self.before))
        committed, planned = log.last_committed(), log.last_planned()
        settings = self._settings()
        for name in ("offsets", "commits", "sources"):
            self.store.clear(f"{self.folder}/{name}")
        self.store.copy(f"{self.before}/sources", f"{self.folder}/sources")
        # Spark compares the last batch with the one before.
        for batch_id in range(max(committed - 1, 0), planned + 1):
            name = f"offsets/{batch_id}"
            self.store.replace(f"{self.folder}/{name}", self._with_settings(f"{self.before}/{name}", settings))
            self.store.copy(f"{self.before}/commits/{batch_id}", f"{self.folder}/commits/{batch_id}")
        if committed >= 0:
            self._number_state(committed + 1)

    def use(self) -> None:
        """From now on, this is the generation in use, and the one before is gone."""
        self.store.sync(self.folder)
        if isinstance(self.record, JobRecord):
            JobFile(self.store).write(replace(self.record, shards=self.shards, generation=self.generation))
        else:
            PlanFile(self.store).write(replace(self.record, shards=self.shards, generation=self.generation))
        remove_others(self.store, self.folder)

    def _settings(self) -> dict[str, str]:
        """How the new state was written, and its number of partitions."""
        name = f"{self.folder}/offsets/0"
        written = self._parsed(name)[1]["conf"] if self.store.exists(name) else {}
        return {key: value for key, value in written.items() if key.startswith(_STATE)} | {
            _PARTITIONS: str(self.shards)
        }

    def _with_settings(self, name: str, settings: dict[str, str]) -> bytes:
        """An offset log with other settings, with which Spark runs the next batches and repeats this one."""
        version, metadata, offsets = self._parsed(name)
        metadata["conf"] |= settings
        return "\n".join([version, json.dumps(metadata, separators=(",", ":")), *offsets]).encode()

    def _parsed(self, name: str) -> tuple[str, dict[str, Any], list[str]]:
        """Version, metadata and offsets of an offset log."""
        try:
            version, metadata, *offsets = (self.store.read(name) or b"").decode().split("\n")
            described = json.loads(metadata)
            described["conf"].keys()
        except (ValueError, KeyError, TypeError, AttributeError) as broken:
            raise corrupt(self.store.address(name), f"not a Spark log ({broken})") from broken
        return version, described, offsets

    def _number_state(self, version: int) -> None:
        """Snapshots are named by their version, which is that of the batch that reads them."""
        state = self.store.below(f"{self.folder}/state")
        for operator in state.names():
            for partition in filter(str.isdigit, state.below(operator).names()):
                files = state.below(f"{operator}/{partition}")
                for name in files.names():
                    if found := _SNAPSHOT.fullmatch(name):
                        files.move(name, f"{found[1]}{version}{found[2]}")
