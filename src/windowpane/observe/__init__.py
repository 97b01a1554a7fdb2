"""Metrics of a running pipeline, for Prometheus. Imports neither Spark nor the runtime."""
