"""The one layer in front of everything (ARCHITECTURE 7).

In order: reservation, credential, body, for MCP frames the preflight and the lane of their target, dispatch,
and release after the last byte is sent. Handlers behind it never check any of this again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from keyload.contract.errors import KeyLoadError
from keyload.contract.operation import AdmissionClass, Operation
from keyload.contract.operations import OPERATIONS
from keyload.front import openapi, responses, routes
from keyload.front.admission import HttpGate, Ingress, Lease
from keyload.front.auth import Authenticator, Claim
from keyload.front.barrier import lost
from keyload.front.calls import Caller, RequestContext
from keyload.front.exchange import Disconnected, Exchange, Receive, Scope, Send, Timeouts
from keyload.front.hosts import Hosts
from keyload.front.mcp import early_error, inspect
from keyload.front.measures import Measures
from keyload.front.replacement import PATH as REPLACEMENT_PATH
from keyload.front.replacement import ReplacementDoor
from keyload.front.responses import Response
from keyload.front.scrape import PATH, Scrape
from keyload.link import log

MCP_PATH = "/mcp"
CONTEXT = "keyload"
"""Member of an ASGI scope that holds the `RequestContext` of an admitted MCP request."""

_METHOD_NOT_ALLOWED = Response(405, ((b"allow", b"POST"),), b"")

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
Answer = Awaitable[Response]


class Edge:
    """The ASGI application of a node. `mcp` serves admitted MCP requests, `other` everything that is
    neither.
    """

    def __init__(
        self,
        gate: HttpGate,
        authenticator: Authenticator,
        router: routes.Router,
        mcp: Asgi,
        scrape: Scrape,
        replacement: ReplacementDoor,
        other: Asgi,
        measures: Measures,
        timeouts: Timeouts | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        self._gate = gate
        self._authenticator = authenticator
        self._router = router
        self._mcp = mcp
        self._scrape = scrape
        self._replacement = replacement
        self._other = other
        self._measures = measures
        self._timeouts = timeouts or Timeouts()
        self._hosts = hosts or Hosts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; websockets are refused."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        path = routes.normal_path(scope["path"])
        try:
            self._hosts.check(scope["headers"], mcp=path == MCP_PATH)
        except KeyLoadError as error:
            form = _rpc_failure if path == MCP_PATH else responses.failure
            await _refuse(Exchange(scope, receive, send, self._timeouts), form(error))
            return
        if path.startswith(routes.PREFIX) or path == routes.PREFIX[:-1]:
            await self._serve_operation(path, Exchange(scope, receive, send, self._timeouts))
        elif path == MCP_PATH:
            await self._serve_mcp(Exchange(scope, receive, send, self._timeouts))
        elif path == PATH and scope["method"] == "GET":
            await self._serve_scrape(Exchange(scope, receive, send, self._timeouts))
        elif path == openapi.PATH and scope["method"] == "GET":
            exchange = Exchange(scope, receive, send, self._timeouts)
            await self._serve_beside(exchange, "data-other", self._describe)
        elif path == REPLACEMENT_PATH:
            await self._serve_beside(Exchange(scope, receive, send, self._timeouts), "control", self._replace)
        else:
            await self._other(scope, receive, send)

    async def _serve_operation(self, path: str, exchange: Exchange) -> None:
        lease: Lease | None = None
        operation = routes.find(path)
        try:
            try:
                admission_class = routes.admission_class(path, operation)
                lease = self._gate.reserve(admission_class, exchange.declared_length())
                claim = self._authenticator.claim(exchange.scope["headers"])
                if operation is not None and _is_short_read(operation) and claim.caller is not None:
                    response = await self._serve_read(operation, exchange, lease, claim, claim.caller)
                else:
                    caller = await claim.confirmed()
                    self._gate.verify(lease, caller.principal)
                    body = await exchange.read(self._gate.body_cap(admission_class))
                    answer = self._answer(operation, exchange, caller, body)
                    long = operation is not None and operation.runs_long
                    response = await (exchange.while_connected(answer) if long else answer)
            except KeyLoadError as error:
                response = self._refusal(operation, error)
            except Disconnected:
                return
            except Exception as error:
                log.failure(log.Category.REQUEST_FAILED, error)
                response = self._refusal(operation, lost())
            await exchange.write(response)
        finally:
            if lease is not None:
                self._gate.release(lease)
        await exchange.finish()

    async def _serve_read(
        self, operation: Operation, exchange: Exchange, lease: Lease, claim: Claim, caller: Caller
    ) -> Response:
        """Make a read while its caller is being confirmed: both barriers travel together.

        Nothing of it leaves before the confirmation; when the catalog changed meanwhile it is made again.
        """
        self._gate.verify(lease, caller.principal)
        body = await exchange.read(self._gate.body_cap(operation.admission_class))
        failure: KeyLoadError | None = None
        response: Response | None = None
        try:
            response = await self._answer(operation, exchange, caller, body)
        except KeyLoadError as error:
            failure = error
        confirmed = await claim.confirmed()
        if not claim.stands():
            return await self._answer(operation, exchange, confirmed, body)
        if response is None:
            assert failure is not None
            raise failure
        return response

    async def _answer(
        self, operation: Operation | None, exchange: Exchange, caller: Caller, body: bytes
    ) -> Response:
        scope = exchange.scope
        return await self._router.serve(
            operation, scope["method"], scope["query_string"], scope["headers"], caller, body
        )

    def _refusal(self, operation: Operation | None, error: KeyLoadError) -> Response:
        self._measures.refused(operation, error.code)
        return responses.failure(error)

    async def _serve_scrape(self, exchange: Exchange) -> None:
        try:
            with self._scrape.place():
                response = await self._scrape.answer(exchange.scope["headers"])
        except KeyLoadError as error:
            response = responses.failure(error)
        except Exception as error:
            log.failure(log.Category.REQUEST_FAILED, error)
            response = responses.failure(lost())
        await exchange.write(response)
        await exchange.finish()

    async def _serve_beside(
        self,
        exchange: Exchange,
        admission_class: AdmissionClass,
        answer: Callable[[Exchange, Caller], Answer],
    ) -> None:
        """What takes a key and a place in a lane, as an operation does, but is none."""
        lease: Lease | None = None
        try:
            try:
                lease = self._gate.reserve(admission_class, exchange.declared_length())
                caller = await self._authenticator.verify(exchange.scope["headers"])
                self._gate.verify(lease, caller.principal)
                response = await answer(exchange, caller)
            except KeyLoadError as error:
                response = responses.failure(error)
            except Disconnected:
                return
            except Exception as error:
                log.failure(log.Category.REQUEST_FAILED, error)
                response = responses.failure(lost())
            await exchange.write(response)
        finally:
            if lease is not None:
                self._gate.release(lease)
        await exchange.finish()

    async def _replace(self, exchange: Exchange, caller: Caller) -> Response:
        body = await exchange.read(self._gate.body_cap("control"))
        payload = await self._replacement.answer(exchange.scope["method"], caller, body)
        return responses.success(payload, str(uuid4()))

    async def _describe(self, exchange: Exchange, caller: Caller) -> Response:
        return openapi.response()

    async def _serve_mcp(self, exchange: Exchange) -> None:
        hold = _McpHold(self._gate)
        try:
            try:
                context = await self._admit_frame(exchange, hold)
                if context is not None:
                    exchange.scope[CONTEXT] = context
                    await self._mcp(exchange.scope, exchange.receive, exchange.send)
                    return
                response = _METHOD_NOT_ALLOWED
            except KeyLoadError as error:
                response = self._rpc_refusal(hold.operation, error)
            except Disconnected:
                return
            except Exception as error:
                log.failure(log.Category.REQUEST_FAILED, error)
                if exchange.started:
                    return
                response = self._rpc_refusal(hold.operation, lost())
            await exchange.write(response)
        finally:
            hold.release()
        await exchange.finish()

    def _rpc_refusal(self, operation: Operation | None, error: KeyLoadError) -> Response:
        self._measures.refused(operation, error.code, "control")
        return _rpc_failure(error)

    async def _admit_frame(self, exchange: Exchange, hold: _McpHold) -> RequestContext | None:
        """Ingress, origin, credential, body, preflight, then the lane of the target (ADM-28, ADM-29); None
        for a method other than POST.
        """
        gate, scope = self._gate, exchange.scope
        ingress = hold.ingress = gate.enter(exchange.declared_length())
        caller = await self._authenticator.verify(scope["headers"])
        if scope["method"] != "POST":
            return None
        body = await exchange.read(gate.limits.max_body_bytes, lambda size: gate.grow(ingress, size))
        frame = inspect(body, OPERATIONS)
        hold.operation = frame.operation
        admission_class = "control" if frame.operation is None else frame.operation.admission_class
        hold.lease = gate.reserve(admission_class, len(body), mcp=True)
        gate.verify(hold.lease, caller.principal)
        gate.leave(ingress)
        return RequestContext(caller, frame, exchange.while_connected)


class _McpHold:
    """What an MCP request holds of the gate, and its target once that is known."""

    __slots__ = ("_gate", "ingress", "lease", "operation")

    def __init__(self, gate: HttpGate) -> None:
        self._gate = gate
        self.ingress: Ingress | None = None
        self.lease: Lease | None = None
        self.operation: Operation | None = None

    def release(self) -> None:
        if self.ingress is not None:
            self._gate.leave(self.ingress)
        if self.lease is not None:
            self._gate.release(self.lease)


async def _refuse(exchange: Exchange, response: Response) -> None:
    """Answer without having read the request."""
    await exchange.write(response)
    await exchange.finish()


def _is_short_read(operation: Operation) -> bool:
    """Whether a call may be made before its caller is confirmed: to make a long read twice costs too much."""
    return operation.read_only and not operation.runs_long


def _rpc_failure(error: KeyLoadError) -> Response:
    _, body = early_error(error)
    return responses.rpc_failure(error, body)
