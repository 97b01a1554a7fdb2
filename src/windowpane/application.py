"""The application file for `spark-submit`: `spark-submit application.py run pipeline.toml`.

Spark copies it to where the driver runs, and windowpane comes from the bundle or from what is installed there.
"""

import sys

if __name__ == "__main__":
    # Python puts the folder of a program on the path, and modules of this folder are called like Python's own.
    if sys.path and sys.path[0].rstrip("/").endswith("/windowpane"):
        del sys.path[0]
    from windowpane.cli import main

    main()
