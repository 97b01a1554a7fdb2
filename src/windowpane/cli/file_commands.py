"""Commands about files: examples, schemas, golden files, bundles. Each imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from windowpane.cli.options import AsJson, Debug
from windowpane.cli.report import reporting


def _refuse_together(options: Mapping[str, object], why: str) -> None:
    """ConfigError for the first of the options that is given."""
    from windowpane.errors import ConfigError  # noqa: PLC0415

    given = next((name for name, value in options.items() if value), None)
    if given is not None:
        raise ConfigError("BAD_OPTION", f"{given} {why}", f"leave {given} out")


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write it; created if it does not exist.")] = Path(),
    *,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="SOURCE", help="kafka://host:port/topic, or a file, folder, glob or s3a://…"),
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", metavar="N", min=1, help="With --from: how many rows to sample (1000).")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a commented, working pipeline.toml with sample data. Existing files are never overwritten.

    With --from: a pipeline for this source. Its schema, event time and lag come from a sample, without Spark.
    """
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.init import init_example, init_from  # noqa: PLC0415

        if source is None:
            _refuse_together({"--rows": rows}, "has a meaning with --from only")
            out.write(init_example(folder, as_json=as_json))
        else:
            out.write(init_from(source, folder, rows or 1000, as_json=as_json))


def schema(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE_OR_FOLDER", help="Sample files: JSON, CSV, parquet or Arrow."),
    ] = None,
    *,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="How many rows of each file to read.")] = 1000,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print the schema of sample files, to paste into pipeline.toml, with the values that do not fit.

    Without files: print the JSON schema of pipeline.toml, for editors.
    """
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.schema import print_schema  # noqa: PLC0415

        out.write(print_schema(files or (), rows, as_json=as_json))


def connectors(
    *,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the formats of streams and sinks, with their options and delivery guarantees."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.connectors import list_connectors  # noqa: PLC0415

        out.write(list_connectors(as_json=as_json))


def run_golden_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE_OR_FOLDER", help="Golden files, or folders with *.slt files.")
    ],
    *,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="as-written, single-rows, restarts, or all of them.")
    ] = "as-written",
    complete: Annotated[
        bool, typer.Option("--complete", help="Write the actual output into the files, for review.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on a local Spark, for expressions that only Spark evaluates.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="PIPELINE.TOML", help="Write a new file with rows of the pipeline's streams."),
    ] = None,
    transform: Annotated[
        str | None, typer.Option("--transform", metavar="NAME", help="With --record: the transform to test.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", metavar="N", min=1, help="With --record: rows of each stream (20).")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run queries on rows from golden files, without Spark unless --spark is given, and compare with the files."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.goldens import (  # noqa: PLC0415
            complete_goldens,
            record_golden,
            run_goldens,
            run_goldens_on_spark,
        )

        _refuse_together(
            {"--transform": transform, "--rows": rows} if record is None else {},
            "has a meaning with --record only",
        )
        if record is not None:
            others = {"--complete": complete, "--spark": spark, "--mode": mode != "as-written"}
            _refuse_together(others, "and --record exclude each other")
            out.write(record_golden(files, record, transform, rows or 20, as_json=as_json))
            return
        if spark:
            report, code = run_goldens_on_spark(files, mode, complete=complete, as_json=as_json)
            out.write(report)
            raise typer.Exit(code)
        if complete:
            out.write(complete_goldens(files, as_json=as_json))
            return
        report, code = run_goldens(files, mode, as_json=as_json)
        out.write(report)
        raise typer.Exit(code)


def bundle(
    *,
    packages: Annotated[
        list[str] | None,
        typer.Option("--package", metavar="NAME", help="Another installed package for it, with what it requires."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FOLDER", help="Where to write it. Default: the user's cache.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make the archive that executors of a cluster run: Python, windowpane and what it requires, for this platform.

    The archive is named by its contents. One that exists is not made again.
    """
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.bundle import bundle as make  # noqa: PLC0415

        out.write(make(packages or (), output, as_json=as_json))
