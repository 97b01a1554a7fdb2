import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A real HDFS in one process, for tests: java MiniHdfs.java FOLDER PORT */
public class MiniHdfs {
  public static void main(String[] given) throws Exception {
    Configuration settings = new Configuration();
    settings.set("hdfs.minidfs.basedir", given[0]);
    settings.set("dfs.permissions.enabled", "false");
    // One machine takes the place of a file's only copy. A test need not wait for the disk.
    settings.set("dfs.replication", "1");
    settings.set("dfs.namenode.fs-limits.min-block-size", "1024");
    int port = Integer.parseInt(given[1]);
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).nameNodePort(port).build();
    cluster.waitActive();
    System.out.println("ready");
    Thread.sleep(Long.MAX_VALUE);
  }
}
