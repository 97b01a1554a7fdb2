"""foreachBatch without PySpark's preparations: PySpark makes a session object in every micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.utils import ForeachBatchFunction


class _BatchFunction(ForeachBatchFunction):
    """Gives the micro-batch the session that the query was started from, instead of a new object for Spark's copy."""

    def call(self, jdf: Any, batch_id: int) -> None:
        self.func(DataFrame(jdf, self.session), batch_id)


def foreach_batch(writer: DataStreamWriter, run: Callable[[DataFrame, int], None]) -> DataStreamWriter:
    """The writer, calling `run` with each micro-batch, as `DataStreamWriter.foreachBatch` does."""
    internal: Any = writer
    gateway: Any = internal._spark.sparkContext._gateway  # noqa: SLF001
    helper = gateway.jvm.org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper
    helper.callForeachBatch(internal._jwrite, _BatchFunction(internal._spark, run))  # noqa: SLF001
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    return writer
