"""What the driver asks of its JVM in every micro-batch, each in one call.

PySpark takes a round trip between the two processes for every step: 28 to look at the files in a plan, 15 to collect
rows. `DriverCalls` does the same in Java, compiled by the compiler that Spark brings along.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from pyspark.serializers import NoOpSerializer
from pyspark.util import _load_from_socket

from windowpane.connectors.java_source import compiled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CALL_BYTES = 1024 * 1024
"""More than this comes by a socket: the answer of a call is text, which takes longer for large payloads."""
_NAME = "WindowpaneDriverCalls"
_SOURCE = """
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.PythonRDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

public class {name} {{
  public String inputFiles(SparkSession session) throws Exception {{
    String id = session.sparkContext().getLocalProperty("sql.streaming.queryId");
    StreamingQueryWrapper query = (StreamingQueryWrapper) session.streams().get(id);
    scala.collection.Iterator leaves =
      query.streamingQuery().lastExecution().logical().collectLeaves().iterator();
    List found = new ArrayList();
    while (leaves.hasNext()) {{
      Object leaf = leaves.next();
      if (!(leaf instanceof LogicalRelation) || !((LogicalRelation) leaf).isStreaming()) continue;
      Object relation = ((LogicalRelation) leaf).relation();
      if (!(relation instanceof HadoopFsRelation)) continue;
      String[] files = ((HadoopFsRelation) relation).location().inputFiles();
      for (int i = 0; i < files.length; i++) found.add(files[i]);
    }}
    return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(found);
  }}

  public String unread(SparkSession session, String id) throws Exception {{
    StreamingQueryWrapper query = (StreamingQueryWrapper) session.streams().get(id);
    List offsets = new ArrayList();
    long files = 0;
    if (query != null) {{
      Object execution = query.streamingQuery();
      Object sources = execution.getClass().getMethod("sources", new Class[0]).invoke(execution, new Object[0]);
      scala.collection.Iterator each = ((scala.collection.Iterable) sources).iterator();
      while (each.hasNext()) {{
        Object source = each.next();
        if (!(source instanceof FileStreamSource)) continue;
        java.lang.reflect.Field field = FileStreamSource.class.getDeclaredField("unreadFiles");
        field.setAccessible(true);
        Object unread = field.get(source);
        if (unread != null) files += ((scala.collection.Iterable) unread).size();
      }}
      StreamingQueryProgress progress = query.lastProgress();
      SourceProgress[] told = progress == null ? new SourceProgress[0] : progress.sources();
      for (int i = 0; i < told.length; i++)
        offsets.add(new String[] {{told[i].endOffset(), told[i].latestOffset()}});
    }}
    Object[] found = new Object[] {{Long.valueOf(files), offsets}};
    return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(found);
  }}

  public Object collect(Dataset rows, long most) throws Exception {{
    int kind = rows.schema().fieldIndex("kind"), payload = rows.schema().fieldIndex("payload");
    InternalRow[] found = rows.queryExecution().executedPlan().executeCollect();
    List frames = new ArrayList();
    long size = 0;
    for (int i = 0; i < found.length; i++) {{
      byte[] frame = frame(found[i].getUTF8String(kind).getBytes(), found[i].getBinary(payload));
      frames.add(frame);
      size += frame.length + 4;
    }}
    if (size > most) return PythonRDD.serveIterator(
      scala.jdk.javaapi.CollectionConverters.asScala(frames.iterator()), "windowpane-collect");
    ByteArrayOutputStream bytes = new ByteArrayOutputStream((int) size);
    DataOutputStream out = new DataOutputStream(bytes);
    for (int i = 0; i < frames.size(); i++) {{
      byte[] frame = (byte[]) frames.get(i);
      out.writeInt(frame.length);
      out.write(frame);
    }}
    return bytes.toByteArray();
  }}

  private static byte[] frame(byte[] kind, byte[] payload) {{
    byte[] frame = new byte[1 + kind.length + payload.length];
    frame[0] = (byte) kind.length;
    System.arraycopy(kind, 0, frame, 1, kind.length);
    System.arraycopy(payload, 0, frame, 1 + kind.length, payload.length);
    return frame;
  }}
}}
"""


class DriverCalls:
    """Calls into the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._session: Any = spark._jsparkSession  # noqa: SLF001  # no Python API has the plan of a micro-batch
        self._calls = compiled(spark._jvm, _NAME, _SOURCE.format(name=_NAME))  # noqa: SLF001

    def input_files(self) -> list[str]:
        """The files in Spark's plan of the micro-batch that runs, spelled as in the source logs."""
        found: list[str] = json.loads(self._calls.inputFiles(self._session))
        return found

    def unread(self, query_id: str) -> dict[str, int]:
        """Input that a query knows of and has not read, because of the limits of its micro-batches: files, messages.

        As of the last micro-batch. What has come since then is not known yet.
        """
        files, offsets = json.loads(self._calls.unread(self._session, query_id))
        messages = sum(_behind(end, latest) for end, latest in offsets)
        return {kind: count for kind, count in (("files", files), ("messages", messages)) if count}

    def collect(self, rows: DataFrame) -> list[tuple[str, bytes]]:
        """Run the job of rows with the columns `kind`, a short text, and `payload`, binary."""
        answer = self._calls.collect(rows._jdf, CALL_BYTES)  # noqa: SLF001
        frames: Any = NoOpSerializer()
        if isinstance(answer, bytes):
            return [_row(frame) for frame in frames.load_stream(io.BytesIO(answer))]
        with _load_from_socket(answer, frames) as received:
            return [_row(frame) for frame in received]


def _behind(end: str | None, latest: str | None) -> int:
    """Messages between two offsets of Kafka as JSON, `{"topic": {"0": 17}}`; 0 for those of other sources."""
    try:
        reached, known = json.loads(end or "null"), json.loads(latest or "null")
        return sum(max(0, int(offset) - int(reached[topic].get(number, offset)))
                   for topic, partitions in known.items() for number, offset in partitions.items())  # fmt: skip
    except (ValueError, TypeError, AttributeError, KeyError):
        return 0


def _row(frame: bytes) -> tuple[str, bytes]:
    end = 1 + frame[0]
    return frame[1:end].decode(), frame[end:]
