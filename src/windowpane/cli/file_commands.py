"""Commands about files: examples, schemas, golden files, bundles. Each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windowpane.cli.options import AsJson, Debug
from windowpane.cli.report import reporting


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write it; created if it does not exist.")] = Path(),
    *,
    debug: Debug = False,
) -> None:
    """Write a commented, working pipeline.toml with sample data. Existing files are never overwritten."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.config import write_example  # noqa: PLC0415

        written = [str(path) for path in write_example(folder)]
        steps = [f"next: windowpane check {written[0]}", f"then: windowpane run {written[0]} --drain"]
        out.write("\n".join([*(f"wrote {path}" for path in written), *steps]))


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
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run queries on rows from golden files, without Spark unless --spark is given, and compare with the files."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.goldens import complete_goldens, run_goldens, run_goldens_on_spark  # noqa: PLC0415

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
