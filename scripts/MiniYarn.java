import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

/** A real YARN in one process, with one node, for tests: java MiniYarn.java FOLDER HOST FILESYSTEM */
public class MiniYarn {
  public static void main(String[] given) throws Exception {
    String host = given[1];
    Configuration settings = new YarnConfiguration();
    settings.set("fs.defaultFS", given[2]);
    settings.set("yarn.resourcemanager.hostname", host);
    settings.set("yarn.resourcemanager.scheduler.class",
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
    settings.set("yarn.scheduler.minimum-allocation-mb", "256");
    settings.set("yarn.nodemanager.hostname", host);
    settings.set("yarn.nodemanager.resource.memory-mb", "4096");
    settings.set("yarn.nodemanager.resource.cpu-vcores", "4");
    settings.set("yarn.nodemanager.vmem-check-enabled", "false");
    settings.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100");
    settings.set("yarn.nodemanager.local-dirs", given[0] + "/local");
    settings.set("yarn.nodemanager.log-dirs", given[0] + "/logs");
    DefaultMetricsSystem.setMiniClusterMode(true); // two daemons in one process
    ResourceManager manager = new ResourceManager();
    manager.init(settings);
    manager.start();
    NodeManager node = new NodeManager();
    node.init(settings);
    node.start();
    while (manager.getResourceScheduler().getNumClusterNodes() == 0) Thread.sleep(50);
    System.out.println("ready");
    Thread.sleep(Long.MAX_VALUE);
  }
}
