"""The functions that `check` knows without Spark are those of the Spark that runs the query."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import windowpane
from windowpane.errors import SqlError
from windowpane.sql.builtins import FILE, spark_functions


def test_the_list_of_functions_is_sparks(spark: SparkSession) -> None:
    assert FILE.read_text().split() == spark_functions(spark), "run scripts/spark_functions.py"


def test_a_query_in_a_job_may_call_what_its_session_has_registered(spark: SparkSession) -> None:
    rows = {"rows": spark.readStream.format("rate").load()}
    query = "SELECT plus_one(value) AS next FROM rows"
    with pytest.raises(SqlError) as refused:
        windowpane.sql(spark, query, rows)
    assert refused.value.code == "UNKNOWN_FUNCTION"
    spark.udf.register("plus_one", lambda value: value + 1, "bigint")
    assert windowpane.sql(spark, query, rows).columns == ["next"]
