"""On the driver: what workers need for the folds that transforms of a job share, as the plan has decided it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace

from windowpane.core.aggregation import Aggregator
from windowpane.core.graph import Graph
from windowpane.core.operators.intake import Intake
from windowpane.core.operators.shared_panes import PaneFolding
from windowpane.plan.shared_folds import SharedFold
from windowpane.scan.scan import Scan
from windowpane.scan.shared_scan import SharedScan
from windowpane.spark.shared_fold import SharedPanes
from windowpane.spark.stages import Stages


def shared_scan(
    scan: SharedScan | None, folds: Sequence[SharedFold], members: Mapping[str, Stages]
) -> tuple[SharedScan | None, tuple[SharedPanes, ...]]:
    """The scan with the rows of each shared fold under its name, in place of those of its transforms; and the folds.

    `members`: the stages of transforms by tag. Those that read other ranges of time share no fold.
    """
    if scan is None:
        return None, ()
    found, scans = list[SharedPanes](), dict(scan.scans)
    for fold in folds:
        if len({members[tag].rows_in for tag in fold.members}) > 1:
            continue
        first = scans[next(iter(fold.members))]
        # Where it matters which columns are read, the transforms read the same ones.
        reader = first.reader if first.original or scan.codec else scan.reader
        rows = replace(first, reader=reader, projections=(fold.projection,))
        scans = {fold.name: rows} | {tag: each for tag, each in scans.items() if tag not in fold.members}
        found.append(_panes(fold, rows, members))
    return replace(scan, scans=scans), tuple(found)


def _panes(fold: SharedFold, rows: Scan, members: Mapping[str, Stages]) -> SharedPanes:
    own = [members[tag] for tag in fold.members]
    aggregator = Aggregator(fold.calls, [key.name for key in fold.keys], rows.schema)
    intake = Intake(fold.keys, max_future_skew_us=fold.max_future_skew_us)
    graph = Graph.linear([intake, PaneFolding(fold.pane_us, fold.offset_us, aggregator)])
    stages = replace(
        own[0], templates=(pickle.dumps(graph),), routes=(), aliases=(), ordered=any(each.ordered for each in own)
    )
    keys = {tag: member.keys for tag, member in fold.members.items()}
    return SharedPanes(fold.name, stages, keys, {tag: {**m.columns, **m.calls} for tag, m in fold.members.items()})
