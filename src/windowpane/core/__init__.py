"""The columnar heart: windows, accumulators, watermark, operators, frames, state. numpy and pyarrow only."""
