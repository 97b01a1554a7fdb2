"""Writes the names of Spark's own functions, which `windowpane check` knows without Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from windowpane.sql.builtins import FILE, spark_functions


def main() -> None:
    """Rewrite the file from the installed Spark."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    FILE.write_text("\n".join(spark_functions(spark)) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
