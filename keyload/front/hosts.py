"""Which names a node answers to, and which web pages may send it requests.

A page in a browser reaches a node that was not meant for it across origins, or through a name of its own that
leads to the node (DNS rebinding). Either way the browser names that origin or host, and the node does not
answer; a program names no origin.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.front.auth import Headers
from keyload.link.addresses import is_loopback, read_origin

MAX_BYTES = 1024
"""Longer hosts and origins are foreign unread."""

REMEMBERED = 64


class Hosts:
    """The check of `Host` and `Origin`.

    `public` is the node's public origin, None for none. A node that listens `on_loopback` answers to loopback
    names with any port, and to its public host, by which a proxy on the same machine calls it; pages may be
    its own or those of this machine. A node that listens elsewhere may be reached under names it does not
    know: there only the origin of a page that calls `/mcp` is looked at, as the transport of MCP asks.
    """

    def __init__(self, public: str | None = None, *, on_loopback: bool = False) -> None:
        self._own = None if public is None else read_origin(public)
        self._on_loopback = on_loopback
        self._is_own_host = lru_cache(REMEMBERED)(self._names_node)
        self._is_own_page = lru_cache(REMEMBERED)(self._is_page)

    def check(self, headers: Headers, *, mcp: bool) -> None:
        """Raises PermissionDenied when a request names another host, or comes from a page of another one."""
        if not (self._on_loopback or mcp):
            return
        for name, value in headers:
            if name == b"origin" and not (len(value) <= MAX_BYTES and self._is_own_page(value)):
                raise _foreign("Origin", "no Origin, or that of the node or of this machine")
            if self._on_loopback and name == b"host" and not self._is_own_host(value[: MAX_BYTES + 1]):
                raise _foreign("Host", "a loopback name or the host of the node's public origin")

    def _names_node(self, value: bytes) -> bool:
        if len(value) > MAX_BYTES:
            return False
        try:
            host = urlsplit(b"//" + value).hostname
            name = (host or b"").decode("ascii")
        except ValueError:
            return False
        return is_loopback(name) or (self._own is not None and name == self._own.address.host)

    def _is_page(self, value: bytes) -> bool:
        try:
            origin = read_origin(value.decode("ascii"))
        except ValueError:
            return False
        return origin == self._own or is_loopback(origin.address.host)


def _foreign(header: str, expected: str) -> KeyLoadError:
    detail = f"This node does not answer requests with this {header} header."
    return KeyLoadError(ErrorCode.PERMISSION_DENIED, detail, expected=expected)
