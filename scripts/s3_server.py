"""An S3 server, moto, as `python scripts/s3_server.py -H HOST -p PORT`."""

from __future__ import annotations

import sys

from moto.server import main
from werkzeug.serving import WSGIRequestHandler

# Python's server and Werkzeug both answer "100 Continue", and Amazon's SDK takes the second one for the response.
WSGIRequestHandler.handle_expect_100 = lambda _handler: True  # type: ignore[method-assign]

if __name__ == "__main__":
    main(sys.argv[1:])
