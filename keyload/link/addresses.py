"""Reading of origins and host:port addresses in settings (CLU-1, CLU-2)."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import msgspec


class Address(msgspec.Struct, frozen=True):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Origin(msgspec.Struct, frozen=True):
    """A public origin: scheme, host and port."""

    scheme: str
    address: Address


def read_address(text: str) -> Address:
    """`host:port` with a port of 1..65535; raises ValueError."""
    parts = urlsplit(f"//{text}")
    if parts.hostname is None or parts.port is None or parts.netloc != text or parts.username is not None:
        raise ValueError("expected host:port")
    if parts.port == 0:
        raise ValueError("expected a port of 1..65535")
    return Address(parts.hostname, parts.port)


def read_origin(text: str) -> Origin:
    """`https://host[:port]` or `http://host[:port]`, nothing else; raises ValueError (CLU-2)."""
    parts = urlsplit(text)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or text != f"{parts.scheme}://{parts.netloc}"
    ):
        raise ValueError("expected an origin such as https://host:port without path, query or fragment")
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected an origin without a user part")
    port = parts.port if parts.port is not None else {"http": 80, "https": 443}[parts.scheme]
    return Origin(parts.scheme, Address(parts.hostname, port))


def is_loopback(host: str) -> bool:
    """Whether the host can only be this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_private(host: str) -> bool:
    """Whether the host is an address of a private network."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False
