"""Columns in, columns out, without Spark: expressions by DuckDB, event times, and why a row cannot be evaluated.

The columnar scan and the harness both run it. Workers import it without the planner.
"""
