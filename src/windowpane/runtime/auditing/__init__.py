"""`windowpane audit`: proves from the ledger and the sinks that no row was lost, doubled or changed afterwards."""
