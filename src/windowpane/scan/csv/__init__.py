"""CSV files in the columnar scan, read as Spark's CSV reader reads them. Does not import Spark."""
