"""Takes back what a pipeline has written to its sinks after a savepoint, where delivery is exactly once.

The batches after the savepoint run again, with other boundaries and under the identity of another run. What they wrote
before would be there twice. Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from windowpane.checkpoint.addresses import local_path
from windowpane.config import METRICS_ONLY, REINJECT, PipelineConfig
from windowpane.connectors.file_names import BATCH_FILE, STAGING_FOLDER
from windowpane.errors import StateError
from windowpane.formats import sink_format
from windowpane.remote.access import Access
from windowpane.runtime.asking.sink_rows import REPAIR
from windowpane.runtime.location import store_at


@dataclass(frozen=True)
class Cut:
    """Where the output of a transform is cut: what these runs have written after these batches goes."""

    transform: str
    """With its version, if that is not the first: `q~2`."""
    runs: list[str]
    batch_id: int
    side: dict[str, int] = field(default_factory=dict)
    """The last batch whose side rows a sink had taken, by sink, if that is not `batch_id`."""
    repairs: int | None = None
    """The last repair that the savepoint knows of, -1 for none; None if there was none since."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def after(self, sink: str, *, side: bool) -> int:
        return self.side.get(sink, -1) if side else self.batch_id


@dataclass(frozen=True)
class Taken:
    """What becomes of a sink's content. `count`: files or rows that were removed; None: nothing can be taken back."""

    sink: str
    format: str
    side: bool
    transform: str
    after: int
    count: int | None = None
    repaired: bool = False
    """It is about the results of repairs, and `after` is the number of one."""

    @property
    def label(self) -> str:
        """By which the sink knows whose rows they are."""
        return f"{self.transform}{REPAIR}" if self.repaired else self.transform

    @property
    def can_take_back(self) -> bool:
        return sink_format(self.format).takes_back is not None

    def __str__(self) -> str:
        what = "side rows" if self.side else "results"
        since = f"{what} of {self.transform} after batch {self.after}"
        if self.repaired:
            since = f"results of repairs of {self.transform}" + (f" after {self.after}" if self.after >= 0 else "")
        if not self.can_take_back:
            return f"sink `{self.sink}` ({self.format}) keeps its {since}: they come again"
        if self.count is None:
            return f"sink `{self.sink}` ({self.format}) loses its {since}: they come again"
        unit = sink_format(self.format).takes_back
        return f"sink `{self.sink}` ({self.format}): removed {self.count:,} {unit} with {since}"


def sinks_after(config: PipelineConfig, cut: Cut) -> Iterator[Taken]:
    """The sinks of a transform, each with where its content is cut."""
    declared = config.transforms.get(cut.transform.partition("~")[0])
    if declared is None:
        return
    routes = dict.fromkeys(route.last for route in declared.side_output.routes().values())
    for name, side in [*((name, False) for name in declared.sinks), *((name, True) for name in routes)]:
        if name in config.sinks and name not in (METRICS_ONLY, REINJECT):
            after = cut.after(name, side=side)
            yield Taken(name, config.sinks[name].format, side, cut.transform, after)
            if cut.repairs is not None and not side:
                yield Taken(name, config.sinks[name].format, side, cut.transform, cut.repairs, repaired=True)


def check_repairs(config: PipelineConfig, cuts: Sequence[Cut]) -> None:
    """StateError if repairs since the savepoint have replaced results that a sink no longer has."""
    for cut in cuts:
        for sink in sinks_after(config, cut):
            modes = sink_format(sink.format).modes
            if sink.repaired and "update" in modes and config.sinks[sink.sink].mode != "append":
                raise StateError(
                    "REPAIRS_SINCE", f"repairs of {sink.transform} since the savepoint have replaced results in sink "
                    f"`{sink.sink}` ({sink.format}), and the results before them are gone",
                    "go back with --keep-results, and repair again: the sink then has the corrected results",
                )  # fmt: skip


def take_back(config: PipelineConfig, cuts: Sequence[Cut]) -> list[Taken]:
    """Remove files and rows after the cuts. May be repeated. SinkError if a server does not answer."""
    return [_taken(config, cut, each) for cut in cuts for each in sinks_after(config, cut)]


def _taken(config: PipelineConfig, cut: Cut, sink: Taken) -> Taken:
    if not sink.can_take_back:
        return sink
    take = _take_back_rows if sink_format(sink.format).takes_back == "rows" else _take_back_files
    count = take(config, cut, sink)
    return replace(sink, count=count)


def _take_back_files(config: PipelineConfig, cut: Cut, sink: Taken) -> int:
    declared = config.sinks[sink.sink]
    path = declared.path or declared.spark_options["path"]
    folder = store_at(local_path(path) or path, config.base_dir, config.spark)
    whose, removed = f"{sink.label}{'.side' if sink.side else ''}", 0
    for name in folder.names():
        staged, found = STAGING_FOLDER.fullmatch(name), BATCH_FILE.fullmatch(name)
        if staged and staged[1] == whose and staged[2] in cut.runs:
            folder.clear(name)  # the next process looks for those of its own run only
        if found and found[1] == whose and found[2] in cut.runs and int(found[3]) > sink.after:
            folder.delete(name)
            removed += not name.startswith(".")
    return removed


def _take_back_rows(config: PipelineConfig, cut: Cut, sink: Taken) -> int:
    from windowpane.runtime.routes import build_sink  # noqa: PLC0415  # loads PySpark

    access = Access.of_spark(config.spark.spark_config)
    made = build_sink(config, sink.sink, config.sinks[sink.sink])
    return made.take_back(access, runs=cut.runs, transform=sink.label, side=sink.side, after=sink.after)
