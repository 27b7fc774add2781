"""Tool calls: decoding, searching, routing, and the invocation of an operation through the gateway.

The gateway runs a local adapter per operation that holds neither principal nor arguments: it reads both
from the request being answered, whose target the edge has admitted (MCP-4, MCP-25).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, cast

import msgspec
from msgspec import UNSET

from keyload.codec.decoding import decode_arguments, example_arguments
from keyload.contract.errors import ErrorCode, KeyLoadError, Problem
from keyload.contract.operations import Operation
from keyload.front.calls import Frame, Invoker, Outcome, RequestContext, with_example
from keyload.front.exchange import Disconnected
from keyload.front.mcp import catalog, slips, tools
from keyload.front.mcp.preflight import INVOKE
from keyload.front.mcp.replies import Answer, Placeholder, failure, success
from keyload.front.measures import Measures
from keyload.gateway import GatewayOptions, ToolNotFound, create_gateway
from keyload.link import log

MAX_OPERATIONS = 256
MAX_METADATA_BYTES = 4 * 1024 * 1024
MAX_QUERY_CHARS = 2048


class Exchange:
    """One request and its answer, in that request's own scope."""

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        self.placeholder = Placeholder()
        self.answer: Answer | None = None

    @property
    def in_data_lane(self) -> bool:
        """Whether the frame was admitted as its target's data call (ADM-4, CON-177)."""
        operation = self.context.frame.operation
        return operation is not None and operation.admission_class != "control"


_current: ContextVar[Exchange] = ContextVar("keyload_mcp_exchange")


class ToolCalls:
    """Answers calls of the three meta tools; a failure is an answer too."""

    def __init__(self, invoke: Invoker, operations: Mapping[str, Operation], measures: Measures) -> None:
        self._invoke = invoke
        self._measures = measures
        self._operations = operations
        self._gateway, registry, _ = create_gateway(
            GatewayOptions(
                strategy="graph",
                query_normalization="disabled",
                max_tools=MAX_OPERATIONS,
                max_metadata_bytes=MAX_METADATA_BYTES,
                max_search_chars=MAX_QUERY_CHARS,
            )
        )
        for operation in operations.values():
            tools.register(registry, operation, self._adapter(operation))

    async def warm(self) -> None:
        """Build the index. Raises RuntimeError when it is incomplete: such a host must not serve (MCP-35)."""
        built = await self._gateway.initialize()
        if built.tool_count != len(self._operations) or built.diagnostics:
            raise RuntimeError("the catalog of operations is incomplete")

    async def close(self) -> None:
        """Close the gateway (MCP-42)."""
        await self._gateway.close()

    async def answer(self, exchange: Exchange) -> Answer:
        """Run the meta tool the frame names."""
        token = _current.set(exchange)
        try:
            match exchange.context.frame.tool:
                case tools.SEARCH:
                    return await self._search(exchange)
                case tools.ROUTE:
                    return await self._route(exchange)
                case _:
                    return await self._run(exchange)
        except KeyLoadError as error:
            return self._failure(exchange.context.frame, error)
        except Exception as error:
            log.failure(log.Category.TOOL_FAILED, error)
            return self._failure(exchange.context.frame, _unexpected(exchange.context.frame.operation))
        finally:
            _current.reset(token)

    def _failure(self, frame: Frame, error: KeyLoadError) -> Answer:
        self._measures.refused(frame.operation, error.code, "control")
        return failure(error.problem)

    async def _search(self, exchange: Exchange) -> Answer:
        arguments = tools.search_arguments(exchange.context.frame.arguments)
        found = await self._gateway.search(arguments.query, max_results=arguments.max_results)
        result, line = tools.search_result(() if found.low_confidence else found.matches)
        return success(result, None, line)

    async def _route(self, exchange: Exchange) -> Answer:
        arguments = tools.route_arguments(exchange.context.frame.arguments)
        found = await self._gateway.route(
            arguments.query,
            arguments.max_categories,
            arguments.max_tools_per_category,
            arguments.prefer_read_only,
        )
        result, line = tools.route_result(() if found.low_confidence else found.categories)
        return success(result, None, line)

    async def _run(self, exchange: Exchange) -> Answer:
        try:
            return await self._invoked(exchange)
        except KeyLoadError as error:
            if error.code in (ErrorCode.VALIDATION, ErrorCode.NOT_FOUND):
                self._explain(exchange.context.frame, error)
            raise

    async def _invoked(self, exchange: Exchange) -> Answer:
        tool_id = tools.invoke_target(exchange.context.frame.arguments)
        try:
            invocation = await self._gateway.invoke(f"{catalog.SOURCE}:{tool_id}", {})
        except ToolNotFound:
            near = slips.nearest(tool_id, self._operations)
            raise KeyLoadError(
                ErrorCode.NOT_FOUND,
                "There is no operation with this toolId.",
                path="/toolId",
                expected=("" if near is None else f"{near}, or another ")
                + "toolId that gateway_tools_search or gateway_tools_route found",
            ) from None
        if isinstance(invocation.output, Answer):
            return invocation.output
        if isinstance(invocation.exception, KeyLoadError):
            raise invocation.exception
        log.event(log.Category.TOOL_FAILED)
        raise _unexpected(exchange.context.frame.operation)

    def _explain(self, frame: Frame, error: KeyLoadError) -> None:
        """Show the call that was meant, else the smallest call of the target."""
        slip = slips.find(frame.arguments, self._operations)
        if slip is not None:
            error.expected, error.example = slip
        elif frame.operation is not None:
            error.example = _call(frame.operation)

    def called(self, frame: Frame) -> KeyLoadError:
        """The refusal of a tool that is none of the three: how the operation it names is invoked (MCP-13)."""
        name = frame.tool or ""
        tool = slips.meant(name, tools.META_TOOLS)
        error = KeyLoadError(
            ErrorCode.NOT_FOUND,
            "There are three tools; operations are none of them, gateway_tool_invoke runs those.",
            path="/name",
            expected=tool or "one of " + ", ".join(tools.META_TOOLS),
        )
        target = slips.meant(name, self._operations)
        if target is not None:
            slip = slips.find({"toolId": target, "arguments": frame.arguments}, self._operations)
            arguments = _call(self._operations[target]) if slip is None else slip.example
            error.expected = f"the tool {INVOKE} with the toolId {target}, as in the example"
            error.example = {"name": INVOKE, "arguments": arguments}
        return error

    def _adapter(self, operation: Operation) -> Callable[[], Awaitable[Answer]]:
        """The local tool of one operation; it runs only as the admitted target (MCP-24, MCP-25)."""

        async def adapter() -> Answer:
            context = _current.get().context
            if context.frame.tool != INVOKE or context.frame.operation is not operation:
                raise KeyLoadError(ErrorCode.OWNERSHIP_LOST, "The call and its admitted target differ.")
            envelope = cast("dict[str, Any]", context.frame.arguments).get("arguments", {})
            try:
                command_id, request = decode_arguments(operation, envelope)
            except KeyLoadError as error:
                error.path = f"/arguments{error.path or ''}"
                raise
            work = self._invoke(context.caller, operation, command_id, request)
            outcome = await (_attended(context, work) if operation.runs_long else work)
            if outcome.problem is not None:
                return failure(_placed(outcome.problem, operation), outcome.request_id)
            if outcome.payload is None:
                raise RuntimeError("an outcome has a payload or a problem")
            return success(outcome.payload, outcome.request_id, f"{operation.title}: done.")

        return adapter


async def _attended(context: RequestContext, work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """A read that runs long ends when its caller leaves, who then gets no answer (MCP-40)."""
    try:
        return await context.while_connected(work)
    except Disconnected:
        raise KeyLoadError(ErrorCode.CANCELLED, "The caller has left.") from None


def _call(operation: Operation) -> dict[str, Any]:
    """The smallest valid arguments of `gateway_tool_invoke` for an operation."""
    return {"toolId": operation.name, "arguments": example_arguments(operation)}


def _placed(problem: Problem, operation: Operation) -> Problem:
    """A problem of the execution, its path and example those of the tool's arguments."""
    if operation.request is not None and problem.path is not UNSET:
        problem = msgspec.structs.replace(problem, path=f"/arguments/request{problem.path}")
    return with_example(problem, _call(operation))


def _unexpected(operation: Operation | None) -> KeyLoadError:
    """The fixed text of a failure nobody foresaw (HTTP-17)."""
    if operation is not None and operation.kind != "read":
        return KeyLoadError(
            ErrorCode.UNKNOWN_WRITE_OUTCOME, "The outcome of the write is unknown; repeat it."
        )
    return KeyLoadError(ErrorCode.OWNERSHIP_LOST, "The call failed inside the node.")
