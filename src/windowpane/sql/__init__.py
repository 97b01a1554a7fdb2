"""From SQL text to a bound query. The only layer that knows sqlglot; what leaves it is plain values and Spark SQL."""

from windowpane.sql.bind import bind
from windowpane.sql.parse import parse
from windowpane.sql.schema import KAFKA_COLUMNS, KNOWN_SCHEMAS, RATE_COLUMNS, Catalog, Schema, parse_schema
from windowpane.sql.statement import SelectStmt

__all__ = [
    "KAFKA_COLUMNS",
    "KNOWN_SCHEMAS",
    "RATE_COLUMNS",
    "Catalog",
    "Schema",
    "SelectStmt",
    "bind",
    "parse",
    "parse_schema",
]
