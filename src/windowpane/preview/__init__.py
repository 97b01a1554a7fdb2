"""Samples of real sources without Spark: new pipelines from them, queries over them, test cases of them."""
