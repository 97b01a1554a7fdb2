"""The columnar scan: Python workers read files and messages with Arrow, without the JVM. Does not import Spark."""
