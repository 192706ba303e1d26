"""What does the server answer to each MCP method?  The SDK's low-level server, with our handlers in it."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from refdesk.errors import Cancelled
from refdesk.server.call import LOG_LEVELS, ROOTS, InputNeeded, ServerCall, answerable_by, asking, input_required
from refdesk.server.hub import Hub
from refdesk.server.messages import answer_on_wire, clean, tool_on_wire
from refdesk.server.resources import Reading
from refdesk.server.sdk import Context, channel_of, connection_of, is_modern, page
from refdesk.server.tasks import Tasks
from refdesk.toolsets.contract import INVALID_PARAMS, Json, LogLevel, RpcError, Tool

LOG_LEVEL = "refdesk/log_level"

Handler = Callable[[Context, Any], Awaitable[HandlerResult]]


class Protocol:
    """The handlers; one for all connections."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.tasks = Tasks(hub, self.new_call)
        self.reading = Reading(hub, self.new_call)
        self._listening = ListenHandler(hub.audience.bus)

    # ── tools ──

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        registry = await self.hub.registry()
        listed = [tool_on_wire(tool, ctx.protocol_version) for tool in registry.tools()]
        return page("tools", listed, params, len(listed) or 1)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        tool = await self.tool(params.name)
        call = self.new_call(ctx)
        try:
            pool = self.hub.calls if tool.hints.read_only else self.hub.writes
            answer = await self.hub.run_tool(tool, params.arguments or {}, call, pool)
        except InputNeeded as needed:
            return input_required(needed, ctx)
        return answer_on_wire(answer, ctx.protocol_version)

    async def tool(self, name: str) -> Tool:
        registry = await self.hub.registry()
        tool = registry.tool(name)
        if tool is None:
            known = ", ".join(each.name for each in registry.tools())
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}. Known tools: {known}.")
        return tool

    def new_call(self, ctx: Context, *, task_id: str | None = None) -> ServerCall:
        """The context of a call that this request makes; a task's outlives the request and speaks past it."""
        connection, options = connection_of(ctx), self.hub.options
        meta = _meta(ctx)
        given, token = meta.get("correlationId"), meta.get("progressToken")
        ask = asking(ctx, options.ask_timeout_s, options.roots_timeout_s)
        return ServerCall(
            correlation_id=given if isinstance(given, str) and given else uuid.uuid4().hex,
            version=ctx.protocol_version,
            notify=(connection if task_id else channel_of(ctx)).notify,
            ask=self.tasks.asking(task_id) if task_id else ask,
            answerable=answerable_by(ctx),
            state=connection.state,
            progress_token=token if isinstance(token, str | int) else None,
            log_level=_log_level(ctx),
            task_id=task_id,
            meta=meta,
        )

    # ── the rest of the connection ──

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        connection_of(ctx).state[LOG_LEVEL] = params.level
        return types.EmptyResult()

    async def forget_roots(self, ctx: Context, params: types.NotificationParams) -> None:
        connection_of(ctx).state.pop(ROOTS, None)

    async def listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        with self.hub.audience.listening(params.notifications.resource_subscriptions or ()):
            return await self._listening(ctx, params)

    # ── around every message ──

    async def guard(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Turns every failure into a JSON-RPC error that says enough, and no more."""
        try:
            return await call_next(ctx)
        except MCPError:
            raise
        except RpcError as error:
            raise MCPError(error.code, clean(error.message), clean(error.data)) from error
        except ValidationError as error:
            raise MCPError(INVALID_PARAMS, _params_words(ctx.method, error)) from error
        except (Cancelled, InputNeeded) as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        except Exception as error:
            raise self.hub.mishap(uuid.uuid4().hex, f"{ctx.method} failed", error) from error

    async def greet(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Adds to `initialize` what the SDK can't say by itself, and counts the client in."""
        result = await call_next(ctx)
        if ctx.method != "initialize" or not isinstance(result, dict):
            return result
        self.hub.audience.join(connection_of(ctx))
        offered: Json = result["capabilities"]
        for name in ("tools", "resources", "prompts"):
            if name in offered:
                offered[name]["listChanged"] = True
        if result["protocolVersion"] == "2025-11-25":
            offered["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return result


def build_server(hub: Hub) -> Server[Any]:
    """The SDK's server, ready for any transport."""
    protocol, options = Protocol(hub), hub.options
    server: Server[Any] = Server(
        options.name,
        version=options.version,
        title=options.title,
        instructions=options.instructions,
        cache_hints=dict.fromkeys(get_args(CacheableMethod), CacheHint(ttl_ms=0, scope="private")),
        on_subscriptions_listen=protocol.listen,
    )
    for method, params_type, handler in _handlers(protocol):
        server.add_request_handler(method, params_type, _complete(handler))
    roots_changed = "notifications/roots/list_changed"
    server.add_notification_handler(roots_changed, types.NotificationParams, protocol.forget_roots)
    server.get_tool_input_schema = hub.input_schema
    # The SDK's own first middleware, which traces to OpenTelemetry, goes: our log has the correlation id.
    seal = RequestStateBoundary(RequestStateSecurity(keys=[options.state_key]), default_audience=options.name)
    server.middleware[:] = [protocol.guard, protocol.greet, seal, protocol.tasks.augment]
    return server


def _handlers(protocol: Protocol) -> list[tuple[str, type[Any], Handler]]:
    """Each method, what its params must be, and who answers it."""
    reading, tasks = protocol.reading, protocol.tasks
    handlers: list[tuple[str, type[Any], Handler]] = [
        ("tools/list", types.PaginatedRequestParams, protocol.list_tools),
        ("tools/call", types.CallToolRequestParams, protocol.call_tool),
        ("resources/list", types.PaginatedRequestParams, reading.list_resources),
        ("resources/templates/list", types.PaginatedRequestParams, reading.list_templates),
        ("resources/read", types.ReadResourceRequestParams, reading.read),
        ("resources/subscribe", types.SubscribeRequestParams, reading.subscribe),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, reading.unsubscribe),
        ("completion/complete", types.CompleteRequestParams, reading.complete),
        ("logging/setLevel", types.SetLevelRequestParams, protocol.set_level),
        ("tasks/get", types.GetTaskRequestParams, tasks.get),
        ("tasks/list", types.PaginatedRequestParams, tasks.list),
        ("tasks/result", types.GetTaskPayloadRequestParams, tasks.result),
        ("tasks/cancel", types.CancelTaskRequestParams, tasks.cancel),
    ]
    if protocol.hub.options.prompts:
        handlers.append(("prompts/list", types.PaginatedRequestParams, reading.list_prompts))
        handlers.append(("prompts/get", types.GetPromptRequestParams, reading.get_prompt))
    return handlers


def _complete(handler: Handler) -> Handler:
    """The handler, saying on 2026-07-28 that its result is whole where it does not say otherwise."""

    async def handle(ctx: Context, params: Any) -> HandlerResult:
        result = await handler(ctx, params)
        if isinstance(result, dict) and is_modern(ctx.protocol_version):
            return {"resultType": "complete", **result}
        return result

    return handle


def _meta(ctx: Context) -> Mapping[str, Any]:
    meta = (ctx.params or {}).get("_meta")
    return meta if isinstance(meta, Mapping) else {}


def _log_level(ctx: Context) -> LogLevel | None:
    """The least level that the client wants told; None for no messages at all."""
    if is_modern(ctx.protocol_version):
        level = _meta(ctx).get(types.LOG_LEVEL_META_KEY)
    else:
        level = connection_of(ctx).state.get(LOG_LEVEL, "info")
    return level if level in LOG_LEVELS else None


def _params_words(method: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "params"
    return f"Invalid params for {method}: {where}: {first['msg']}"
