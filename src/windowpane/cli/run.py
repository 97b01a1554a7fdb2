"""`windowpane run`: plan, start Spark, show how it goes, end in the way that was asked for, and give the account."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windowpane.checkpoint.control import Requests
from windowpane.checkpoint.restoring import check_restored
from windowpane.cli.figures import accounting_table, stage_line
from windowpane.cli.profile import Profile
from windowpane.cli.progress import JsonProgress, LinesProgress, LiveProgress, Progress
from windowpane.cli.ui import showing
from windowpane.config import METRICS_ONLY, PipelineConfig, Trigger, find_pipeline, load_pipeline, parse_options
from windowpane.connectors.tables import table_console
from windowpane.errors import ConfigError
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import plan_pipeline
from windowpane.remote.objects import scheme_of
from windowpane.runtime.location import pipeline_store
from windowpane.runtime.savepoints import admit, find_origin, start_from, with_checkpoint
from windowpane.runtime.signals import StopSignals, stop_signals
from windowpane.runtime.status import Board, named

if TYPE_CHECKING:
    from windowpane.checkpoint.ledger import Entry
    from windowpane.runtime.pipeline import Pipeline
    from windowpane.runtime.supervision import Outcome


@dataclass(frozen=True)
class RunOptions:
    """What the command line says beside the file."""

    transform: str | None = None
    trigger: str | None = None
    metrics_port: int | None = None
    drain: bool = False
    as_json: bool = False
    profile: bool = False
    origin: str | None = None
    """The savepoint to start a new checkpoint from."""
    checkpoint: str | None = None
    """Instead of the one in the file."""
    evolve: bool = False
    drain_removed: bool = False
    ui_port: int | None = None
    """Where the live page is served; None: nowhere."""
    ui_token: str | None = None


def run_pipeline(path: Path | None, options: RunOptions) -> None:
    """Run until it ends; raises the error it ended with."""
    with stop_signals() as signals:
        try:
            _plan_and_run(path, options, signals)
        except KeyboardInterrupt:
            if signals.is_impatient:
                raise
            _conclude_early(as_json=options.as_json)


def _plan_and_run(path: Path | None, options: RunOptions, signals: StopSignals) -> None:
    given = load_pipeline(path or find_pipeline())
    config = with_checkpoint(given, options.checkpoint)
    plans = plan_pipeline(config, options.transform)
    trigger = _trigger(options)
    if options.origin is not None:
        start_from(find_origin(options.origin, given), config, plans, evolve=options.evolve)
    _admit(config, plans, options)
    progress = _progress(options)
    # py4j logs every connection that breaks when Spark stops; what matters reaches the user as an error.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: "/py4j/" not in record.pathname)  # it logs there too
    progress.say("starting Spark …")
    from windowpane.runtime.pipeline import Pipeline  # noqa: PLC0415  # after the plan: mistakes need no Spark

    pipeline = Pipeline(config, plans, trigger=trigger, metrics_port=options.metrics_port)
    profiles = {plan.transform: Profile() for plan in plans} if options.profile else {}
    page = showing(pipeline_store(config), options.ui_port, options.ui_token, progress.say)
    with page, redirect_stdout(progress.stdout):
        outcome, board = _run(pipeline, progress, profiles, signals, options)
    _conclude(config, outcome, board, profiles, as_json=options.as_json)


def _admit(config: PipelineConfig, plans: Sequence[Plan], options: RunOptions) -> None:
    """StateError when the checkpoint does not let these plans run: known without Spark."""
    store = pipeline_store(config)
    check_restored(store)
    admit(store, config, plans, evolve=options.evolve, drain_removed=options.drain_removed)


def _run(
    pipeline: Pipeline, progress: Progress, profiles: Mapping[str, Profile], signals: StopSignals, options: RunOptions
) -> tuple[Outcome, Board]:
    def hear(transform: str, entry: Entry) -> None:
        progress.heard(transform, entry)
        if transform in profiles:
            profiles[transform].hear(entry)

    from windowpane.runtime.supervision import supervise  # noqa: PLC0415  # needs Spark

    try:
        running = pipeline.start(watch=hear, evolve=options.evolve, drain_removed=options.drain_removed)
        signals.started()
        progress.watch(running.board)
        if running.metrics is not None:
            progress.say(f"metrics: {running.metrics.url}")
        requests = Requests(running.store, every_seconds=1.0 if scheme_of(running.store.address()) else 0.0)
        outcome = supervise(running, requests, asked_to_stop=signals.asked, drain=options.drain, tick=progress.tick)
    finally:
        progress.close()
    return outcome, running.board


def _trigger(options: RunOptions) -> Trigger | None:
    available_now = Trigger("available_now")
    given = parse_options({"trigger": options.trigger}).trigger if options.trigger is not None else None
    if not options.drain:
        return given
    if given not in (None, available_now):
        raise ConfigError(
            "BAD_OPTION",
            f"--drain ends at the end of the input, which --trigger {given} never reaches",
            "leave out --trigger, or run without --drain and end it with windowpane drain",
        )
    return available_now


def _progress(options: RunOptions) -> Progress:
    if options.as_json:
        return JsonProgress(sys.stdout)
    return LiveProgress(sys.stderr) if sys.stderr.isatty() else LinesProgress(sys.stderr)


def _conclude(
    config: PipelineConfig, outcome: Outcome, board: Board, profiles: Mapping[str, Profile], *, as_json: bool
) -> None:
    if as_json:
        final = {"event": "end", "outcome": outcome} | board.document()
        final |= {"profile": {name: each.document() for name, each in profiles.items()}} if profiles else {}
        sys.stdout.write(json.dumps(final) + "\n")
        return
    console = table_console(sys.stderr)
    for name, entry in board.entries.items():
        console.print(accounting_table(name, named(entry.totals), _routes(config, name)))
        for stage, totals in entry.stage_totals.items():
            console.print(stage_line(name, stage, named(totals)), markup=False)
    for name, profile in profiles.items():
        console.print(profile.table(name))
    left = sum(entry.open_windows for entry in board.entries.values())
    message = _ending(outcome, left, pipeline_store(config).address())
    console.print(message, markup=False, soft_wrap=not console.is_terminal)


def _conclude_early(*, as_json: bool) -> None:
    """A signal came before the pipeline ran."""
    if as_json:
        sys.stdout.write(
            json.dumps({"event": "end", "outcome": "stopped", "state": "stopped", "transforms": {}}) + "\n"
        )
    else:
        sys.stderr.write("Stopped before the pipeline had started. Nothing has changed.\n")


def _ending(outcome: Outcome, left: int, folder: str) -> str:
    if outcome == "drained":
        return f"Ended gracefully: every window was emitted, and the checkpoint {folder} is finished."
    why = "All input is processed." if outcome == "exhausted" else "Stopped."
    still_open = f"{left:,} open windows stay" if left != 1 else "1 open window stays"
    return f"{why} {still_open} in the checkpoint {folder}; start it again to resume."


def _routes(config: PipelineConfig, transform: str) -> dict[str, str]:
    routes = config.transforms[transform].side_output.routes()
    return {kind: route.sink for kind, route in routes.items() if route.sink != METRICS_ONLY}
