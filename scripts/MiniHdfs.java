import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/** A real HDFS in one process, for tests: java MiniHdfs.java FOLDER HOST PORT */
public class MiniHdfs {
  public static void main(String[] given) throws Exception {
    String host = given[1], address = host + ":" + given[2];
    Configuration settings = new Configuration();
    settings.set("fs.defaultFS", "hdfs://" + address);
    settings.set("dfs.namenode.rpc-address", address);
    settings.set("dfs.namenode.http-address", host + ":0");
    settings.set("dfs.namenode.name.dir", given[0] + "/name");
    settings.set("dfs.namenode.datanode.registration.ip-hostname-check", "false");
    settings.set("dfs.datanode.data.dir", given[0] + "/data");
    for (String name : new String[] {"address", "http.address", "ipc.address"})
      settings.set("dfs.datanode." + name, host + ":0");
    settings.set("dfs.permissions.enabled", "false");
    // One machine takes the place of a file's only copy. A test need not wait for the disk.
    settings.set("dfs.replication", "1");
    settings.set("dfs.namenode.fs-limits.min-block-size", "1024");
    DefaultMetricsSystem.setMiniClusterMode(true); // to format and to serve in one process
    if (!new File(given[0], "name").exists()) NameNode.format(settings);
    NameNode.createNameNode(new String[0], settings);
    DataNode disk = DataNode.createDataNode(new String[0], settings);
    while (!disk.isDatanodeFullyStarted()) Thread.sleep(50);
    System.out.println("ready");
    Thread.sleep(Long.MAX_VALUE);
  }
}
