#!/bin/bash
# What Kubernetes starts: Spark passes `driver …` or `executor`, everything else is a command such as
# `windowpane run /etc/windowpane/pipeline.toml`.
set -euo pipefail

# Spark hands over Java's options as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
java_options=()
while IFS= read -r name; do java_options+=("${!name}"); done < <(compgen -v SPARK_JAVA_OPT_ | sort -t_ -k4n || true)

classpath="${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}"

case "${1:-}" in
driver)
  shift
  exec "$SPARK_HOME/bin/spark-submit" \
    --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
    --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
    --deploy-mode client "$@"
  ;;
executor)
  exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${java_options[@]}" \
    "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
  ;;
*)
  exec "$@"
  ;;
esac
