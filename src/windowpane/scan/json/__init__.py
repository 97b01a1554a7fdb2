"""JSON to Arrow columns: by blocks where Arrow's parser agrees with Spark's, otherwise record by record."""
