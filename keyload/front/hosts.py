"""Names by which a node that listens on loopback may be called.

A page in a browser of the same machine reaches such a node through a name of its own that leads to 127.0.0.1,
or across origins. Either way the browser names that host or origin, and the node does not answer.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.front.auth import Headers
from keyload.link.addresses import is_loopback

REMEMBERED = 64


class Hosts:
    """The check of `Host` and `Origin`: loopback names pass with any port, and so does `public`, the host of
    the node's public origin, by which a proxy on the same machine calls it.
    """

    def __init__(self, public: str) -> None:
        self._public = public.lower()
        self._is_own = lru_cache(REMEMBERED)(self._names_node)

    def check(self, headers: Headers) -> None:
        """Raises PermissionDenied when a request names another host, or comes from a page of another one."""
        for name, value in headers:
            if name == b"host" and not self._is_own(b"//" + value):
                raise _foreign("Host", "a loopback name or the host of the node's public origin")
            if name == b"origin" and not self._is_own(value):
                raise _foreign("Origin", "no Origin, or one of the node's own host")

    def _names_node(self, text: bytes) -> bool:
        """Whether the host of a URL is the node's."""
        try:
            host = urlsplit(text.decode("ascii")).hostname
        except ValueError:
            return False
        return host is not None and (host == self._public or is_loopback(host))


def _foreign(header: str, expected: str) -> KeyLoadError:
    return KeyLoadError(
        ErrorCode.PERMISSION_DENIED,
        f"A node on loopback does not answer requests with this {header} header.",
        expected=expected,
    )
