"""The process that Spark forks its Python workers from: `python -m windowpane.spark.daemon pyspark.worker`.

It loads what all workers need before there are any, so that each of them starts with it.
"""

from __future__ import annotations

import windowpane.spark.fold_stage
import windowpane.spark.merge_stage  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
