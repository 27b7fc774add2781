"""A cluster in use by somebody with secrets, and everything that others get to see of it (TST-14)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import uuid
from collections.abc import Iterable
from typing import Any, Self

import httpx
import msgspec

from harness.canaries import Search, marker
from harness.cluster import Cluster
from harness.raw_http import PROTOCOL
from keyload.client import AsyncClient
from keyload.contract.catalog import IndexDefinition, ResourceDefinition, ResourceKind
from keyload.contract.security import ApiKeyRecord, PrincipalRecord, ScopeGrant

COLLECTION, DOMAIN = "records", "main"
CALL_SECONDS = 20.0
KINDS = (
    "secret",
    "tenant",
    "database",
    "partition",
    "document",
    "payload",
    "owner",
    "principal",
    "query",
    "name",
)
"""What is marked: the secret part of the key; tenant, database, partition key and id of the document; its
content and owner; the caller; words of a task; names that nothing has, such as members, tools and paths."""

OWN = ("tenant", "database", "partition", "document")
"""What a caller who names a document has said itself."""

Tree = dict[str, Any]


class Eavesdropper:
    """Sends calls as one principal, and keeps what must not hold a marker."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.markers = {kind: marker(kind) for kind in KINDS}
        self.search = Search(self.markers)
        self.leaks: list[str] = []
        self.codes: set[str] = set()
        self.key = f"{marker('id')}.{self.markers['secret']}"
        self.stranger = f"{marker('id')}.{marker('s')}"
        self.neighbour = f"{marker('id')}.{marker('s')}"
        self._http = httpx.AsyncClient(timeout=CALL_SECONDS)

    async def __aenter__(self) -> Self:
        await self._prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    # -- what there is

    @property
    def partition(self) -> Tree:
        """The partition with the secrets."""
        names = self.markers
        return {
            "tenantId": names["tenant"],
            "databaseId": names["database"],
            "transactionDomainId": DOMAIN,
            "partitionKey": names["partition"],
        }

    @property
    def reference(self) -> Tree:
        """The document with the secrets."""
        return {"partition": self.partition, "collection": COLLECTION, "id": self.markers["document"]}

    def put(self, **members: Any) -> Tree:
        """A mutation that writes the document."""
        text = msgspec.json.encode({"email": self.markers["payload"], "more": [self.markers["payload"]]})
        mutation = {
            "kind": "putDocument",
            "collection": COLLECTION,
            "id": self.markers["document"],
            "json": text.decode(),
            "access": {"ownerId": self.markers["owner"]},
        }
        return mutation | members

    def commit(self, *mutations: Tree, command_id: str | None = None) -> Tree:
        """A command with these mutations."""
        return {
            "commandId": command_id or str(uuid.uuid4()),
            "partition": self.partition,
            "mutations": list(mutations),
        }

    async def _prepare(self) -> None:
        """A collection with a unique index; the owner, a neighbour who sees no rows, a stranger elsewhere."""
        names = self.markers
        definition = ResourceDefinition(
            name=COLLECTION,
            kind=ResourceKind.COLLECTION,
            transaction_domain_id=DOMAIN,
            indexes=(IndexDefinition(name="byEmail", fields=("/email",), unique=True),),
        )
        async with AsyncClient(self.cluster.urls, self.cluster.key) as client:
            await client.resources_configure(names["tenant"], names["database"], definition)
            for key, principal in (
                (self.key, _principal(names["principal"], names["tenant"], names["owner"])),
                (self.neighbour, _principal(marker("p"), names["tenant"], marker("o"))),
                (self.stranger, _principal(marker("p"), marker("t"), marker("o"))),
            ):
                await client.principals_configure(principal)
                verifier = hashlib.sha256(key.encode()).hexdigest()
                await client.credentials_configure(
                    ApiKeyRecord(id=key.partition(".")[0], principal_id=principal.id, verifier=verifier)
                )

    # -- calls

    def saw(self, place: str, seen: bytes, allowed: Iterable[str] = ()) -> None:
        """Note what somebody who must not see a marker saw."""
        self.leaks += self.search.leaks(place, seen, allowed)

    async def succeeds(self, path: str, body: Tree, node: int = 1) -> Tree:
        """A call of the owner that succeeds; its answer may hold everything."""
        answer = await self._post(path, msgspec.json.encode(body), self.key, node)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def fails(
        self,
        path: str,
        body: Tree | bytes,
        *codes: str,
        key: str | None = None,
        allowed: Iterable[str] = (),
        headers: dict[str, str] | None = None,
        method: str = "POST",
        node: int = 1,
    ) -> None:
        """A call that fails with one of the codes, without a marker in its answer."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        answer = await self._post(path, content, key or self.key, node, headers or {}, method)
        place = f"{method} {path.partition('?')[0][:40]}"
        assert answer.status_code >= 400, f"{place}: {answer.text}"
        code = answer.json()["errorCode"]
        assert code in codes, f"{place}: {answer.text}"
        self.codes.add(code)
        self.saw(f"{place} {code}", _whole(answer), allowed)

    async def attempt(self, path: str, body: Tree, node: int) -> httpx.Response | None:
        """A call of the owner that may fail in any way; None when no answer came."""
        try:
            return await self._post(path, msgspec.json.encode(body), self.key, node)
        except httpx.HTTPError:
            return None

    async def others_see(self, path: str, body: Tree | None, key: str, allowed: Iterable[str] = ()) -> None:
        """A call of somebody else, whatever comes of it."""
        content = b"" if body is None else msgspec.json.encode(body)
        answer = await self._post(path, content, key, 1, method="GET" if body is None else "POST")
        self.saw(f"the answer of {path} to others", _whole(answer), allowed)

    async def speaks(
        self, method: str, params: Tree | None, *, key: str | None = None, handshake: bool = False,
        allowed: Iterable[str] = (), failing: bool = True, raw: bytes | None = None,
    ) -> Tree:  # fmt: skip
        """One MCP message; the answer to one that fails must hold no marker."""
        message: Tree = {"jsonrpc": "2.0", "id": 1, "method": method}
        headers = {"accept": "application/json, text/event-stream"}
        version = "2025-06-18" if handshake else PROTOCOL
        headers["mcp-protocol-version"] = version
        if params is not None or not handshake:
            message["params"] = dict(params or {})
        if not handshake:
            headers["mcp-method"] = method
            if named := (params or {}).get("name") or (params or {}).get("uri"):
                headers["mcp-name"] = named
            meta = "io.modelcontextprotocol"
            message["params"]["_meta"] = {
                f"{meta}/protocolVersion": version,
                f"{meta}/clientCapabilities": {},
            }
        content = raw if raw is not None else msgspec.json.encode(message)
        answer = await self._post("/mcp", content, key or self.key, 2, headers)
        tree = answer.json()
        failed = "error" in tree or tree["result"].get("isError", False)
        assert failed == failing, f"MCP {method}: {answer.text}"
        if failing:
            self.saw(f"MCP {method}", _whole(answer), allowed)
        return tree

    async def invokes(self, tool: str, arguments: Tree, **options: Any) -> Tree:
        """One call of a tool."""
        return await self.speaks("tools/call", {"name": tool, "arguments": arguments}, **options)

    async def _post(
        self,
        path: str,
        content: bytes,
        key: str,
        node: int,
        headers: dict[str, str] | None = None,
        method: str = "POST",
    ) -> httpx.Response:
        fields = {"authorization": f"Bearer {key}", "content-type": "application/json"} | (headers or {})
        url = self.cluster.urls[node - 1] + path
        return await self._http.request(method, url, content=content, headers=fields)

    async def says_raw(self, data: bytes) -> None:
        """Bytes that are no good HTTP, and whatever comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.cluster.nodes[0].profile.http_port)
        writer.write(data)
        async with asyncio.timeout(CALL_SECONDS):
            self.saw("an answer to malformed HTTP", await reader.read(1 << 20))
        writer.close()

    async def runs(self, *words: str, key: str) -> int:
        """The command line in a process of its own; its exit status."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "keyload.cli", *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"KEYLOAD_API_KEY": key},
        )  # fmt: skip
        said, complained = await process.communicate()
        self.saw(f"keyload {words[0]}", said + complained)
        return int(process.returncode or 0)

    # -- what else there is to be seen

    async def look_around(self) -> None:
        """Metrics of every node, what administrators are told, command lines and logs of all processes."""
        for number, url in enumerate(self.cluster.urls, 1):
            fields = {"authorization": f"Bearer {self.cluster.key}"}
            metrics = await self._http.get(f"{url}/metrics", headers=fields)
            assert metrics.status_code == 200
            self.saw(f"/metrics of node {number}", _whole(metrics))
            for path in ("/v1/status", "/v1/admin/admission"):
                self.saw(path, _whole(await self._http.get(url + path, headers=fields)))
            for role, process in self.cluster.processes(number).items():
                self.saw(f"command line of {role}", "\0".join(process.cmdline()).encode())
        for path, body in (
            ("/v1/admin/dashboard/resources", {"tenantId": "system", "databaseId": "harness"}),
            ("/v1/admin/backup", None),
        ):
            content = b"" if body is None else msgspec.json.encode(body)
            answer = await self._post(path, content, self.cluster.key, 1)
            assert answer.status_code == 200, answer.text
            self.saw(path, _whole(answer))
        self.read_logs()

    def read_logs(self) -> None:
        """Everything that the processes have said since they were first started."""
        for node in self.cluster.nodes:
            log = node.log.read_bytes()
            assert log.count(b"\n") > 3
            self.saw(f"the log of {node.profile.id}", log)


def _principal(name: str, tenant: str, owner: str) -> PrincipalRecord:
    """Somebody who may read and write every collection of a tenant, but sees only the own rows."""
    grant = ScopeGrant(database="*", resource="*", capabilities="DocumentsRead, DocumentsWrite")
    return PrincipalRecord(
        id=name, tenant_id=tenant, grants=(grant,), field_grants=(), owner_id=owner, restrict_rows=True
    )


def _whole(answer: httpx.Response) -> bytes:
    """Head and body of an answer."""
    fields = b"".join(name + b": " + value + b"\n" for name, value in answer.headers.raw)
    return fields + answer.content
