"""A plugin: one aggregate, one window kind, one codec and one sink, one module each. Nothing in `src` knows of them."""
