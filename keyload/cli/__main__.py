"""`python -m keyload.cli` is the command `keyload`."""

from __future__ import annotations

import sys

from keyload.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
