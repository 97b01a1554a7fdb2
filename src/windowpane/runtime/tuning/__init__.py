"""`windowpane tune`: what another lag, lateness, gap, batch size or number of shards would do. No Spark."""
