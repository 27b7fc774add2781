"""`python -m apphost` is the command `apphost`."""

import sys

from apphost.main import main

if __name__ == "__main__":
    sys.exit(main())
