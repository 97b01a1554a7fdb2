"""Metrics of a running pipeline, for Prometheus. Knows neither Spark nor the runtime: it is given figures to show."""
