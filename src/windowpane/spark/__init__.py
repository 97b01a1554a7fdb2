"""Hosts the core in Structured Streaming: native Spark SQL around two Python stages, before and after one shuffle."""
