"""Golden cases of the SQL front end: a query and what becomes of it, many to a file. One loader for all of them.

WINDOWPANE_COMPLETE=1 writes what came out into the files, to be read before it is committed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from windowpane.plan.result_steps import describe_call
from windowpane.sql import Catalog, parse, parse_schema
from windowpane.sql.query import BoundQuery, Expr
from windowpane.sql.result_steps import Filter, Over, ResultStep

FIXTURES = Path(__file__).parent / "fixtures"
BETWEEN, ARROW = "\n\n====\n", "\n----\n"

CATALOG = Catalog(
    streams={
        "bids": parse_schema(
            "auction BIGINT, price BIGINT, bidder STRING, ts TIMESTAMP, channel STRING, ok BOOLEAN,"
            " info STRUCT<a: INT, b: ARRAY<STRING>>, `@timestamp` STRING"
        ),
        "asks": parse_schema("auction INT, price BIGINT, ts TIMESTAMP"),
        "marks": parse_schema("window_start TIMESTAMP, n INT"),
        "raw": None,
    },
    tables={
        "users": parse_schema("id STRING, name STRING, price BIGINT"),
        "cats": parse_schema("auction BIGINT, cat STRING"),
        "open_table": None,
    },
    has_function={"my_udf", "f"}.__contains__,
)


@dataclass(frozen=True)
class Case:
    sql: str
    expected: str

    def __str__(self) -> str:
        return " ".join(self.sql.split())[:70]


def load(name: str) -> list[Case]:
    """The cases of a file, in order."""
    text = (FIXTURES / f"{name}.txt").read_text()
    pairs = [block.partition(ARROW.rstrip("\n")) for block in text.split(BETWEEN)]
    return [Case(sql, expected.strip("\n")) for sql, _, expected in pairs]


def agree(name: str, results: list[str]) -> None:
    """Compare all results of a file with it, or write them into it."""
    cases = load(name)
    if os.environ.get("WINDOWPANE_COMPLETE"):
        blocks = [f"{case.sql}{ARROW}{result}" for case, result in zip(cases, results, strict=True)]
        (FIXTURES / f"{name}.txt").write_text(BETWEEN.join(blocks) + "\n")
        return
    for case, result in zip(cases, results, strict=True):
        assert result.splitlines() == case.expected.splitlines(), str(case)


def summary(query: BoundQuery) -> str:
    """A bound query in lines: the statement's window and keys, then all that was bound."""
    lines = [*parse(query.text).describe(), f"kind: {query.kind}", f"canonical: {query.canonical}"]
    lines += [f"stream: {stream.name} AS {stream.alias}" for stream in query.relation.streams]
    lines += [f"join: {join.text}" for join in query.relation.joins]
    lines += [f"renamed: {name} = {alias}.{column}" for name, alias, column in query.relation.renamed]
    lines += [f"where: {_typed(query.where)}"] if query.where else []
    if query.window:
        parts = {"on": query.window.on, "when": query.window.when, "open": query.window.open, "emit": query.window.emit}
        lines += [f"{name}: {_typed(expr)}" for name, expr in parts.items() if expr]
        lines += [f"partition: {_typed(expr)}" for expr in query.window.partition_by]
    lines += [f"{key.name}: {_typed(key.expr)} (`{key.label}`)" for key in (*query.keys, *query.carried)]
    lines += [f"{call.name}: {call.describe()} {call.type}" for call in query.aggregates]
    lines += [f"output {output.name}: {_typed(output.expr)}" for output in query.outputs]
    lines += [line for step in query.steps for line in _step(step)]
    if query.watermark:
        lines.append(f"watermark: lag {query.watermark.lag_us} lateness {query.watermark.allowed_lateness_us}")
    lines.append(f"emit: {query.emit.mode} {query.emit.every_us or ''}".rstrip())
    return "\n".join(lines)


def _step(step: ResultStep) -> list[str]:
    if isinstance(step, Filter):
        return [f"{step.clause.lower()}: {_typed(step.condition)}"]
    if isinstance(step, Over):
        return [f"{call.name}: {describe_call(call)} {call.type}" for call in step.calls]
    lines = [f"order by: {_typed(key.expr)} {key.descending=} {key.nulls_first=}" for key in step.order]
    return lines + ([f"limit: {step.limit}"] if step.limit is not None else [])


def _typed(expr: Expr) -> str:
    return f"{expr.text} {expr.type}"
