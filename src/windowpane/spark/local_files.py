"""The driver's local file system: lists files by name, and keeps Spark's part of a checkpoint as private as its folder.

Spark's file source sorts files by time, and those of equal time stay as they were listed. HDFS and object stores list
by name; Hadoop's local file system lists in the order of the operating system, which is any. Hadoop also gives every
file mode 644 by calling the program `chmod`, whatever the folder's mode is. So a subclass takes its place, compiled by
the compiler that Spark brings along. It sets modes by a system call, which takes microseconds instead of milliseconds,
and lists a folder with one system call per file: Spark lists the folders of a source in every micro-batch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("windowpane.run")
_NAME = "WindowpaneLocalFiles"
_SOURCE = """
import java.io.File;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class {name} extends {base} {{
  public {name}() {{
    super();
    if (fs.getClass() == RawLocalFileSystem.class) fs = new {name}Modes();
  }}

  public FileStatus[] listStatus(Path folder) throws IOException {{
    FileStatus[] found = super.listStatus(folder);
    java.util.Arrays.sort(found, new java.util.Comparator() {{
      public int compare(Object left, Object right) {{
        String name = ((FileStatus) left).getPath().getName();
        return name.compareTo(((FileStatus) right).getPath().getName());
      }}
    }});
    return found;
  }}

  /** Everything that is made in this folder from now on takes its mode from the folder it is in. */
  public void keepPrivate(String folder) {{
    {name}Modes.PRIVATE.add(folder);
  }}
}}

class {name}Modes extends RawLocalFileSystem {{
  static final Set PRIVATE = java.util.concurrent.ConcurrentHashMap.newKeySet();
  private static final Set EXECUTE = PosixFilePermissions.fromString("--x--x--x");

  /** Hadoop calls this for every file, folder and file of checksums that it makes. */
  public void setPermission(Path path, FsPermission wanted) throws IOException {{
    try {{
      File file = pathToFile(path);
      Set mode = isPrivate(path) ? inherited(file) : PosixFilePermissions.fromString(wanted.toString());
      Files.setPosixFilePermissions(file.toPath(), mode);
    }} catch (RuntimeException beyondJava) {{ // a sticky bit, or a file system without these modes
      super.setPermission(path, wanted);
    }}
  }}

  public FileStatus[] listStatus(Path path) throws IOException {{
    File folder = pathToFile(path);
    if (!folder.isDirectory()) return super.listStatus(path);
    long block = getDefaultBlockSize(path);
    ArrayList found = new ArrayList();
    DirectoryStream files = Files.newDirectoryStream(folder.toPath());
    try {{
      for (Iterator each = files.iterator(); each.hasNext();) {{
        FileStatus status = status((java.nio.file.Path) each.next(), block);
        if (status != null) found.add(status);
      }}
    }} finally {{
      files.close();
    }}
    return (FileStatus[]) found.toArray(new FileStatus[0]);
  }}

  /** Null if the file is gone, as in Hadoop's own list. Nobody asks a list for modes and owners. */
  private FileStatus status(java.nio.file.Path file, long block) throws IOException {{
    BasicFileAttributes read;
    try {{
      read = Files.readAttributes(file, BasicFileAttributes.class, new LinkOption[0]);
    }} catch (java.nio.file.NoSuchFileException gone) {{
      return null;
    }}
    Path path = new Path(null, null, file.toString()).makeQualified(getUri(), getWorkingDirectory());
    return new FileStatus(
      read.size(), read.isDirectory(), 1, block, read.lastModifiedTime().toMillis(), read.lastAccessTime().toMillis(),
      null, null, null, path);
  }}

  private static boolean isPrivate(Path path) {{
    for (Path at = path; at != null; at = at.getParent()) {{
      if (PRIVATE.contains(at.toUri().getPath())) return true;
    }}
    return false;
  }}

  private static Set inherited(File file) throws IOException {{
    Set mode = Files.getPosixFilePermissions(file.getParentFile().toPath(), new LinkOption[0]);
    if (!file.isDirectory()) mode.removeAll(EXECUTE);
    return mode;
  }}
}}
"""


def use_own_local_files(spark: SparkSession, checkpoint: str | None = None) -> None:
    """Replace the driver's local file system; the session's configuration stays as it is.

    `checkpoint`: the folder whose files take their modes from the folder they are in. The executors of a cluster keep
    their own file systems.
    """
    try:
        files = _own(spark._jvm, spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001  # no Python API has these
        if checkpoint is not None:
            files.keepPrivate(checkpoint)
    except Py4JError as refused:
        cause = str(getattr(refused, "java_exception", refused)).partition("\n")[0]
        _log.warning(
            "local files of equal modification time are read as the system lists them, and Spark's part of the "
            "checkpoint has Spark's modes: %s",
            cause,
        )


def _own(jvm: Any, hadoop: Any) -> Any:
    systems, local = jvm.org.apache.hadoop.fs.FileSystem, jvm.java.net.URI("file:///")
    present = systems.get(local, hadoop)
    base = present.getClass().getName()
    if base == _NAME:
        return present
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(present.getClass().getClassLoader())
    compiler.cook(_SOURCE.format(name=_NAME, base=base))
    own = jvm.org.apache.hadoop.conf.Configuration(hadoop)
    own.setClassLoader(compiler.getClassLoader())
    own.set("fs.file.impl", _NAME)
    present.close()  # takes it out of Hadoop's cache, so that the next one that is asked for takes its place
    return systems.get(local, own)
