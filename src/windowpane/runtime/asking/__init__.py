"""Answers from the checkpoint of a pipeline, whether it runs or not: `windowpane why`, `tune` and `audit`. No Spark."""
