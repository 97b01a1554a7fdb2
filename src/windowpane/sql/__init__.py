"""From SQL text to a bound query. The only layer that knows sqlglot; what leaves it is plain values and Spark SQL text."""

from windowpane.sql.schema import KAFKA_COLUMNS, KNOWN_SCHEMAS, RATE_COLUMNS, Catalog, Schema, parse_schema

__all__ = ["KAFKA_COLUMNS", "KNOWN_SCHEMAS", "RATE_COLUMNS", "Catalog", "Schema", "parse_schema"]
