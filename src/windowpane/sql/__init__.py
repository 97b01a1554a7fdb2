"""From SQL text to a bound query. The only layer that knows sqlglot; what leaves it is plain values and Spark SQL."""

from windowpane.sql.binding.bind import bind
from windowpane.sql.guards import error_guard
from windowpane.sql.scalar import (
    all_of,
    conjuncts,
    expression_problem,
    rename_columns,
    replace_calls,
    split_conjunction,
    substitute_columns,
)
from windowpane.sql.schema import Catalog, Schema, columns_of, parse_schema, with_record_columns
from windowpane.sql.syntax.parse import parse, transform_at_fault
from windowpane.sql.syntax.statement import SelectStmt
from windowpane.sql.time_bounds import TimeBounds, time_bounds
from windowpane.sql.transpile import SessionFacts, Translated, to_duckdb, translate_expression

__all__ = [
    "Catalog",
    "Schema",
    "SelectStmt",
    "SessionFacts",
    "TimeBounds",
    "Translated",
    "all_of",
    "bind",
    "columns_of",
    "conjuncts",
    "error_guard",
    "expression_problem",
    "parse",
    "parse_schema",
    "rename_columns",
    "replace_calls",
    "split_conjunction",
    "substitute_columns",
    "time_bounds",
    "to_duckdb",
    "transform_at_fault",
    "translate_expression",
    "with_record_columns",
]
