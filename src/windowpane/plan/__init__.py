"""From a bound query to a plan: logical nodes, optimizer rules, physical nodes, EXPLAIN."""
