"""The columnar core: windows, accumulators, watermark, operators, frames and state. Uses only numpy and pyarrow."""
