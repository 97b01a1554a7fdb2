"""Sinks that write tables of Delta Lake, Iceberg and DuckDB, exactly once, from the driver."""
