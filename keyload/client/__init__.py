"""The SDK: `AsyncClient` and, for blocking code, `Client`, both thin typed layers over HTTP."""

from keyload.client.asynchronous import AsyncClient
from keyload.client.blocking import Client
from keyload.client.errors import KeyLoadError

__all__ = ["AsyncClient", "Client", "KeyLoadError"]
