"""The live page: a pipeline seen in a browser, through its checkpoint. Imports neither Spark nor the connectors."""
