"""What one shard reports to the driver after a micro-batch, besides its results and side rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windowpane.core.accounting import Accounting
from windowpane.core.graph import Graph
from windowpane.core.metadata import decode_record, encode_record
from windowpane.core.operators.watermark import EventtimeWatermark
from windowpane.core.wire import pack_frames, unpack_frames


@dataclass(frozen=True)
class ShardReport:
    """Counts of the micro-batch, and where the shard stands after it."""

    clock_us: int
    step: int = 1
    """How many shuffles are in front of the shard."""
    watermark_us: int | None = None
    maxima: dict[str, int] = field(default_factory=dict)
    """The largest event time of each source partition."""
    latest_us: int | None = None
    """The largest event time of the micro-batch, of rows too far ahead too."""
    held_by: str | None = None
    """The source partition that holds the watermark."""
    watermarks: int = 0
    """How often the watermark has moved."""
    open_windows: int = 0
    """Open windows of single groups."""
    open_runs: list[list[int]] = field(default_factory=list)
    """Keys of the open windows that all groups share, as `arithmetic_runs`."""
    state_bytes: int = 0
    results: int = 0
    side: dict[str, int] = field(default_factory=dict)
    """Side rows by kind."""
    tallies: dict[str, int] = field(default_factory=dict)
    """Counts beside the accounting."""
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    """The accounts of windows over the results of others, by name."""
    stage_runs: dict[str, list[list[int]]] = field(default_factory=dict)
    """`open_runs` of these."""

    @classmethod
    def of(
        cls, graph: Graph, clock_us: int, *, step: int, state_bytes: int, results: int, side: Mapping[str, int],
        tallies: Mapping[str, int], latest_us: int | None = None,
    ) -> ShardReport:  # fmt: skip
        """The report of a graph of operators that has just finished a micro-batch."""
        watermark = next((each for each in graph.operators if isinstance(each, EventtimeWatermark)), None)
        runs: dict[str, list[list[int]]] = {}
        for node in graph.nodes:
            runs.setdefault(node.stage, []).extend(node.operator.open_runs())
        report = cls(
            clock_us, step, graph.source_watermark_us, state_bytes=state_bytes, results=results, side=dict(side),
            tallies=dict(tallies), latest_us=latest_us,
            open_windows=sum(operator.open_count() for operator in graph.operators),
            open_runs=runs.pop("", []), stage_runs=runs,
        )  # fmt: skip
        if watermark is None:
            return report
        return replace(
            report, maxima=dict(watermark.tracker.maxima), held_by=watermark.tracker.holding(clock_us),
            watermarks=watermark.watermarks_emitted,
        )  # fmt: skip

    def pack(self, accounts: Mapping[str, Accounting]) -> bytes:
        """`accounts`: by stage."""
        chained = {name: account.as_dict() for name, account in accounts.items() if name}
        return pack_frames([], accounts.get("", Accounting()), **encode_record(replace(self, stages=chained)))

    @classmethod
    def unpack(cls, data: bytes) -> tuple[ShardReport, Accounting]:
        """What `pack` was given."""
        _, counts, stored = unpack_frames(data)
        return decode_record(cls, stored), counts
