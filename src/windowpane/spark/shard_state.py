"""The state of a shard, made from that of another number of shards."""

from __future__ import annotations

from collections.abc import Sequence

from windowpane.core.operators.taking_over import take_over
from windowpane.core.rescaling import Owned
from windowpane.core.state import EntryMap
from windowpane.spark.stages import Stages


def make_shard(stages: Stages, step: int, number: int, stored: Sequence[EntryMap], entries: EntryMap) -> None:
    """Put into `entries` the state of shard `number` of a step. `stored`: the entries of all shards of that step.

    `stages` are those of the new number of shards.
    """
    owned = Owned(number, stages.shards, aliases=dict(stages.aliases))
    take_over(stages.graph(step), [(stages.graph(step), each) for each in stored], owned, entries)
