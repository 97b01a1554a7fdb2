"""Windowed queries over Nexmark's auction site: windowpane, Spark and Flink on the same data (docs/benchmarks.md)."""
