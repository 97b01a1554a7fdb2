"""Lets Spark's Kafka source plan micro-batches without fetching messages.

A rule of the optimizer puts the ranges of offsets that the source has planned, as rows, in place of its scan. Spark
itself puts an empty relation there if a source has nothing new. Offsets, limits, checks for lost data and the
checkpoint stay those of Spark's source. The rule runs on the driver only.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from windowpane.connectors.java_source import compiled
from windowpane.scan.message_columns import FIRST, MARK, MARKED, UNTIL

OPTION = "windowpane.ranges"
"""Marks the sources to which the rule applies."""
_DISABLED = "spark.sql.streaming.disabledV2MicroBatchReaders"
_NAME = "WindowpaneKafkaRanges"
_SOURCE = f"""
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.unsafe.types.UTF8String;

public class {_NAME} extends Rule {{
  public TreeNode apply(TreeNode plan) {{
    return ((LogicalPlan) plan).transformUp(new Replacing());
  }}

  public void install(SparkSession session) {{
    ExperimentalMethods methods = session.experimental();
    scala.collection.Iterator rules = methods.extraOptimizations().iterator();
    while (rules.hasNext()) if (rules.next().getClass().getName().equals(getClass().getName())) return;
    methods.extraOptimizations_$eq(
      (scala.collection.immutable.Seq) methods.extraOptimizations().appended(this));
  }}

  public static class Replacing extends scala.runtime.AbstractPartialFunction {{
    public boolean isDefinedAt(Object node) {{
      if (!(node instanceof StreamingDataSourceV2ScanRelation)) return false;
      StreamingDataSourceV2ScanRelation scan = (StreamingDataSourceV2ScanRelation) node;
      return scan.endOffset().isDefined() && scan.relation().options().getBoolean("{OPTION}", false);
    }}

    public Object applyOrElse(Object node, scala.Function1 otherwise) {{
      if (!isDefinedAt(node)) return otherwise.apply(node);
      try {{
        return ranges((StreamingDataSourceV2ScanRelation) node);
      }} catch (RuntimeException failed) {{
        throw failed;
      }} catch (Exception failed) {{
        throw new RuntimeException(failed);
      }}
    }}

    private static LocalRelation ranges(StreamingDataSourceV2ScanRelation scan) throws Exception {{
      InputPartition[] planned = ((MicroBatchStream) scan.stream()).planInputPartitions(
        (Offset) scan.startOffset().get(), (Offset) scan.endOffset().get());
      List rows = new ArrayList();
      for (int i = 0; i < planned.length; i++) {{
        Object range = called(planned[i], "offsetRange");
        rows.add(row(scan.output(), range));
      }}
      return new LocalRelation(
        scan.output(), scala.jdk.javaapi.CollectionConverters.asScala(rows).toSeq(), true,
        new scala.Some(scan.stream()));
    }}

    private static GenericInternalRow row(scala.collection.immutable.Seq output, Object range) throws Exception {{
      Object[] values = new Object[output.size()];
      for (int i = 0; i < values.length; i++) {{
        String name = ((Attribute) output.apply(i)).name();
        if (name.equals("topic")) values[i] = UTF8String.fromString((String) called(range, "topic"));
        else if (name.equals("partition")) values[i] = called(range, "partition");
        else if (name.equals("offset")) values[i] = called(range, "fromOffset");
        else if (name.equals("value")) values[i] = called(range, "untilOffset").toString().getBytes();
        else if (name.equals("timestampType")) values[i] = Integer.valueOf({MARKED});
      }}
      return new GenericInternalRow(values);
    }}

    private static Object called(Object object, String method) throws Exception {{
      Method found = object.getClass().getMethod(method, new Class[0]);
      found.setAccessible(true);
      return found.invoke(object, new Object[0]);
    }}
  }}
}}
"""


def install(spark: SparkSession) -> bool:
    """Add the rule to a session; False if this Spark does not allow it, and so fetches messages itself."""
    if "Kafka" in (spark.conf.get(_DISABLED, "") or ""):
        return False
    session: Any = spark
    try:
        compiled(session._jvm, _NAME, _SOURCE).install(session._jsparkSession)  # noqa: SLF001  # no Python API for it
    except Py4JError:
        return False
    return True


def as_ranges(records: DataFrame) -> DataFrame:
    """The ranges that the rule has put in place of records."""
    until = f"try_cast(CAST(value AS STRING) AS BIGINT) AS {UNTIL}"
    return records.selectExpr("topic", "partition", f"offset AS {FIRST}", until, f"timestampType AS {MARK}")
