"""The program: its commands in the order of the help, with examples."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
import typer.core

from windowpane import __version__
from windowpane.cli import ask_commands, file_commands, plan_commands, run_commands
from windowpane.cli.options import with_ui_port
from windowpane.connectors.tables import UNBOUNDED

app = typer.Typer(
    name="windowpane",
    help="Windowed streaming SQL for Spark in which every row is accounted for.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 200,
        "terminal_width": None if sys.stdout.isatty() else UNBOUNDED,
    },
)


def _examples(*lines: str) -> str:
    """Lines that a narrow terminal does not rewrap, so that they can be copied."""
    return "\b\n" + "\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])


def _print_version(asked: bool) -> None:  # noqa: FBT001  the signature of a typer callback
    if asked:
        typer.echo(f"windowpane {__version__}")
        raise typer.Exit


@app.callback()
def windowpane(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {
    plan_commands.check: (
        "windowpane check",
        "windowpane check jobs/pipeline.toml --json",
    ),
    plan_commands.explain: (
        "windowpane explain",
        "windowpane explain jobs/pipeline.toml --physical --transform hot",
        'windowpane explain --stream "bids=auction BIGINT, ts TIMESTAMP" \\',
        "    --sql \"SELECT auction, count(*) FROM bids GROUP BY window(ts, '10 seconds'), auction\"",
        'windowpane explain --stream "bids=ts BIGINT" --eventtime bids=ts:unixtimestamp_ms --sql - < query.sql',
    ),
    plan_commands.preview: (
        "windowpane preview",
        "windowpane preview jobs/pipeline.toml --transform hot --rows 10000",
        "windowpane preview --watch",
        "windowpane preview --json | jq '.transforms[0].results'",
    ),
    run_commands.run: (
        "windowpane run",
        "windowpane run jobs/pipeline.toml --drain",
        "windowpane run --trigger 10s --json > progress.jsonl",
        "windowpane run --drain --profile",
        "windowpane run --ui",
        "windowpane run --from monday --checkpoint trial",
    ),
    run_commands.diff: (
        "windowpane diff",
        "windowpane diff jobs/pipeline.toml --json",
    ),
    run_commands.history: ("windowpane history jobs/pipeline.toml --transform hot",),
    run_commands.status: (
        "windowpane status",
        "windowpane status jobs/pipeline.toml --json",
    ),
    ask_commands.why: (
        "windowpane why --window 12:00",
        "windowpane why --window 2026-01-31T12:00:00Z --group auction=7",
        'windowpane why --row \'{"auction": 7, "ts": 1700000000000}\'',
        "windowpane why jobs/pipeline.toml --late late:42:1 --json",
        "windowpane why --group '{\"auction\": 7}'",
    ),
    ask_commands.tune: (
        "windowpane tune",
        "windowpane tune --loss 0.01% --picture lags.svg",
        "windowpane tune jobs/pipeline.toml --sample data/bids --batch-rows 5000 --json",
    ),
    ask_commands.audit: (
        "windowpane audit",
        "windowpane audit jobs/pipeline.toml --html audit.html --json > audit.json",
        "windowpane audit --recompute 3",
    ),
    ask_commands.repair: (
        "windowpane repair --from dlq --dry-run",
        "windowpane repair jobs/pipeline.toml --from dlq --where \"kind = 'late'\"",
    ),
    ask_commands.replay: (
        "windowpane replay --from dlq --dry-run",
        "windowpane replay jobs/pipeline.toml --from dlq --where \"reason = 'decode_error'\"",
    ),
    run_commands.ui: (
        "windowpane ui",
        "windowpane ui jobs/pipeline.toml --port 9000",
        "WINDOWPANE_UI_TOKEN=… windowpane ui --checkpoint s3://bucket/hot --host 0.0.0.0",
    ),
    run_commands.drain: ("windowpane drain jobs/pipeline.toml --timeout 600",),
    run_commands.stop: ("windowpane stop jobs/pipeline.toml",),
    run_commands.reset: (
        "windowpane reset",
        "windowpane reset jobs/pipeline.toml --transform hot --yes",
        "windowpane reset --to monday",
    ),
    run_commands.savepoint: (
        "windowpane savepoint monday",
        "windowpane savepoint jobs/pipeline.toml before-upgrade --json",
        "windowpane savepoint --delete monday",
    ),
    run_commands.savepoints: (
        "windowpane savepoints",
        "windowpane savepoints jobs/pipeline.toml --json",
    ),
    run_commands.rescale: (
        "windowpane stop && windowpane rescale --shards 8",
        "windowpane rescale jobs/pipeline.toml --shards 4 --dry-run --json",
    ),
    run_commands.compact: (
        "windowpane stop && windowpane compact",
        "windowpane compact jobs/pipeline.toml --transform hot --target-mb 512 --json",
    ),
    run_commands.backfill: (
        "windowpane backfill --from 2026-01-01 --to 2026-02-01",
        "windowpane backfill jobs/pipeline.toml --from -1d --to now --transform hot --into hot_again",
        "windowpane backfill --from -7d --to -1d --check --json",
        "windowpane backfill --from 2026-01-01T12:00:00+01:00 --to 2026-01-02 --dry-run",
    ),
    run_commands.inspect: (
        "windowpane inspect",
        "windowpane inspect --ledger 20",
        "windowpane inspect state/hot --json",
    ),
    file_commands.init: (
        "windowpane init hot && cd hot && windowpane check",
        "windowpane init --from data/orders && windowpane preview",
        "windowpane init orders --from kafka://localhost:9092/orders",
        "windowpane init --from 's3a://lake/events/dt=*/*.parquet' --rows 10000",
    ),
    file_commands.schema: (
        "windowpane schema data/bids",
        "windowpane schema > windowpane.schema.json",
    ),
    file_commands.connectors: (
        "windowpane connectors",
        "windowpane connectors --json",
    ),
    file_commands.run_golden_files: (
        "windowpane test tests/",
        "windowpane test hot_items.slt --mode all",
        "windowpane test hot_items.slt --spark",
        "windowpane test hot_items.slt --complete && git diff hot_items.slt",
        "windowpane test tests/hot.slt --record pipeline.toml --transform hot --rows 50",
    ),
    file_commands.bundle: (
        "windowpane bundle",
        "windowpane bundle --package scipy --package my_aggregates --output dist",
        'hdfs dfs -put "$(windowpane bundle --json | jq -r .path)" /apps/windowpane.tar.gz',
    ),
}
"""The commands in the order of the help, each with its examples."""
NAMES = {file_commands.run_golden_files: "test"}
"""Commands that are not called like their function."""


class _Command(typer.core.TyperCommand):
    """A command whose option `--ui` may stand without its port."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_ui_port(args))


for _command, _lines in EXAMPLES.items():
    app.command(NAMES.get(_command), cls=_Command, epilog=_examples(*_lines))(_command)
