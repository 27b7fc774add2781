"""Which web pages may send requests to the MCP endpoint.

A browser names the origin of the page that sends, a program names none. A page that got a name of its own to
point at this node (DNS rebinding) still names its own origin, so that is what is looked at, as the transport
of MCP asks. The host a request names says nothing: a node may be reached under names it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.addresses import Origin, is_loopback, read_origin


class Origins:
    """The pages of this machine and of the node itself; `own` is the node's public origin, None for none."""

    def __init__(self, own: str | None = None) -> None:
        self._own = None if own is None else read_origin(own)

    def check(self, fields: Sequence[tuple[bytes, bytes]]) -> None:
        """Pass a request without an origin or with a known one; PermissionDenied for any other."""
        for name, value in fields:
            if name == b"origin" and not self._knows(value):
                raise KeyLoadError(
                    ErrorCode.PERMISSION_DENIED, "A page of this origin may not send requests to the node."
                )

    def _knows(self, value: bytes) -> bool:
        origin = _read(value)
        return origin is not None and (origin == self._own or is_loopback(origin.address.host))


def _read(value: bytes) -> Origin | None:
    """The origin a field names, None for `null` and for what is none."""
    try:
        return read_origin(value.decode("ascii"))
    except ValueError:
        return None
