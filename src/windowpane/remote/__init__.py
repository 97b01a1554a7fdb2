"""Object stores as Hadoop's addresses name them: `s3a://`, `gs://`, `abfss://`. Workers import this package too."""
