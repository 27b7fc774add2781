"""The blocking client: one method per operation over one pool of connections.

Every method takes `timeout` (seconds for the whole call, repeats included) and `retries` (how often an
uncertain or unreachable call is sent again, 0 switches it off); writes also take the `command_id` that makes
a repeat safe. All raise `keyload.KeyLoadError` (HTTP-22).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self, TypeVar

import httpx

from keyload.client import calls
from keyload.client.core import (
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT,
    Again,
    Answer,
    Call,
    Done,
    HttpRequest,
    Nodes,
    Progress,
    cap,
)
from keyload.contract.admin import BackupReceipt, NodeAdmissionStatus
from keyload.contract.catalog import AdminResourcesPage, ResourceDefinition
from keyload.contract.cluster import AtomicPartitionPlacementResolution, NodeStatus
from keyload.contract.documents import DocumentResult
from keyload.contract.mutations import Mutation
from keyload.contract.security import ApiKeyRecord, PrincipalRecord
from keyload.contract.shared import CommitReceipt, EntityRef, PartitionRef

T = TypeVar("T")
CONNECT_SECONDS = 5.0
CONNECTIONS = 128


class Client:
    """Speaks to the nodes at `addresses` with the API key `key`. Use it as a context manager, or close it."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        key: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
    ) -> None:
        self._nodes = Nodes(addresses, key)
        self._timeout = timeout
        self._retries = retries
        self._http = httpx.Client(
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def documents_get(
        self, reference: EntityRef, *, timeout: float | None = None, retries: int | None = None
    ) -> DocumentResult | None:
        """The document as the caller may see it, None when there is no live one."""
        return self._run(calls.documents_get(reference), timeout, retries)

    def documents_commit(
        self,
        partition: PartitionRef,
        mutations: Sequence[Mutation],
        ownership_epoch: int = 1,
        *,
        command_id: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> CommitReceipt:
        """Apply 1 to 256 mutations to one partition, all or nothing."""
        return self._run(
            calls.documents_commit(partition, mutations, ownership_epoch, command_id), timeout, retries
        )

    def resources_configure(
        self,
        tenant_id: str,
        database_id: str,
        definition: ResourceDefinition,
        expected_schema_version: int | None = None,
        *,
        command_id: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> ResourceDefinition:
        """Create a resource, or change one of the given schema version."""
        return self._run(
            calls.resources_configure(
                tenant_id, database_id, definition, expected_schema_version, command_id
            ),
            timeout,
            retries,
        )

    def principals_configure(
        self,
        principal: PrincipalRecord,
        *,
        command_id: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> PrincipalRecord:
        """Create or replace a principal; gives the stored record."""
        return self._run(calls.principals_configure(principal, command_id), timeout, retries)

    def credentials_configure(
        self,
        api_key: ApiKeyRecord,
        *,
        command_id: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> bool:
        """Store, replace or revoke an API key by its verifier."""
        return self._run(calls.credentials_configure(api_key, command_id), timeout, retries)

    def admin_dispatch(
        self,
        paused: bool,
        *,
        command_id: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> bool:
        """Pause or resume delivery for the whole store; gives the new state."""
        return self._run(calls.admin_dispatch(paused, command_id), timeout, retries)

    def admin_backup(self, *, timeout: float | None = None, retries: int | None = None) -> BackupReceipt:
        """Make a backup on the node that answers. It is asked once: another call makes another backup."""
        return self._run(calls.admin_backup(), timeout, retries)

    def admin_status(self, *, timeout: float | None = None, retries: int | None = None) -> NodeStatus:
        """The state of the node that answers."""
        return self._run(calls.admin_status(), timeout, retries)

    def admin_admission(
        self, *, timeout: float | None = None, retries: int | None = None
    ) -> NodeAdmissionStatus:
        """Admission limits of the node and how much of them is used."""
        return self._run(calls.admin_admission(), timeout, retries)

    def admin_partition_placement_read(
        self, partition: PartitionRef, *, timeout: float | None = None, retries: int | None = None
    ) -> AtomicPartitionPlacementResolution:
        """Where a partition lives."""
        return self._run(calls.admin_partition_placement_read(partition), timeout, retries)

    def admin_partition_placement_bind(
        self,
        expected_revision: int,
        partition: PartitionRef,
        physical_shard_id: str,
        *,
        command_id: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> bool:
        """Assign a partition without data to a shard; `expected_revision` is that of the directory."""
        return self._run(
            calls.admin_partition_placement_bind(expected_revision, partition, physical_shard_id, command_id),
            timeout,
            retries,
        )

    def admin_resources_list(
        self,
        tenant_id: str,
        database_id: str,
        after_name: str | None = None,
        limit: int = 50,
        *,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> AdminResourcesPage:
        """A page of the resources of one database, in name order."""
        return self._run(
            calls.admin_resources_list(tenant_id, database_id, after_name, limit), timeout, retries
        )

    def _run(self, call: Call[T], timeout: float | None, retries: int | None) -> T:
        progress = Progress(
            call,
            self._nodes,
            time.monotonic(),
            timeout=self._timeout if timeout is None else timeout,
            retries=self._retries if retries is None else retries,
        )
        while True:
            step = self._try(progress)
            if isinstance(step, Done):
                return step.value
            time.sleep(step.pause)

    def _try(self, progress: Progress[T]) -> Done[T] | Again:
        request = progress.request(time.monotonic())
        try:
            answer = self._exchange(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            return progress.refused(time.monotonic())
        except (httpx.TimeoutException, TimeoutError):
            raise progress.timed_out() from None
        except httpx.TransportError:
            return progress.broken(time.monotonic())
        return progress.answered(answer, time.monotonic())

    def _exchange(self, request: HttpRequest) -> Answer:
        deadline = time.monotonic() + request.timeout
        with self._http.stream(
            request.method,
            request.url,
            headers=request.headers,
            content=request.body,
            timeout=httpx.Timeout(request.timeout, connect=min(CONNECT_SECONDS, request.timeout)),
        ) as response:
            limit = cap(response.status_code)
            body = bytearray()
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > limit:
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError
            content = bytes(body) if len(body) <= limit else None
            return Answer(response.status_code, content, response.headers.get("x-keyload-request-id"))
