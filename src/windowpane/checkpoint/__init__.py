"""The checkpoint: everything that windowpane writes beside Spark's own state, and what it reads of Spark's logs."""
