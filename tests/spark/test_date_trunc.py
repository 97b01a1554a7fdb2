"""Windows of local days and months begin where Spark's own function says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pyspark.sql import SparkSession

from windowpane.core.windows import AlignedSpec, CalendarSpan, Tumbling

pytestmark = pytest.mark.spark

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC")
UNITS = ("day", "week", "month", "quarter", "year")


def test_local_days_and_months_begin_where_spark_s_date_trunc_says(spark: SparkSession) -> None:
    """Where midnight is shown once, Spark and windows agree."""
    draw = random.Random(3)
    ts = [draw.randrange(0, 2_000_000_000) * 1_000_000 for _ in range(2000)]
    table = spark.createDataFrame([(us,) for us in ts], "us BIGINT").selectExpr("timestamp_micros(us) AS t")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ZONES:
            spark.conf.set("spark.sql.session.timeZone", zone)
            columns = [f"unix_micros(date_trunc('{unit}', t)) AS {unit}" for unit in UNITS]
            truncated = table.selectExpr(*columns).toArrow()
            for unit in UNITS:
                spec = Tumbling.build({"SIZE": CalendarSpan(1, unit), "TIME ZONE": zone})
                assert isinstance(spec, AlignedSpec)
                starts, _ = spec.windows().bounds(spec.windows().last_key(np.array(ts)))
                assert truncated.column(unit).to_pylist() == starts.tolist(), f"{unit} in {zone}"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
