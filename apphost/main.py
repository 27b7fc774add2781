"""Entry of the app host (CLI-14..CLI-23)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from apphost import ordinary, suites
from apphost.options import OptionError, Options, read

WRONG_USE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the options say and return the exit status."""
    try:
        options = read(sys.argv[1:] if arguments is None else arguments)
    except OptionError as error:
        sys.stderr.write(f"apphost: {error}\n")
        return WRONG_USE
    return _run(options)


def _run(options: Options) -> int:
    if options.suite is not None:
        return suites.run(options.suite, options)
    if options.measure is not None:
        from apphost import measuring  # loads the load generators, which the other ways do not need

        return measuring.run(options.measure, options)
    return ordinary.run(options.ephemeral)
