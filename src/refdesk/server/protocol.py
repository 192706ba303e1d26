"""The handlers of all MCP methods, registered with the SDK's low-level server."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from pydantic import ValidationError

from refdesk.errors import Cancelled, InvalidInput, NotFound, RefdeskError, RpcError
from refdesk.server.call import (
    LOG_LEVEL,
    LOG_LEVELS,
    ROOTS,
    InputNeeded,
    ServerCall,
    answerable_by,
    ask_function,
    input_required,
)
from refdesk.server.dispatcher import SUBSCRIPTIONS, Dispatcher
from refdesk.server.messages import answer_json, block_json, clean, to_json, tool_json
from refdesk.server.process import T
from refdesk.server.registry import Registry
from refdesk.server.sdk import Context, channel_of, connection_of, is_modern, page
from refdesk.server.tasks import Tasks
from refdesk.system.retry import arrived
from refdesk.toolsets.content import INTERNAL_ERROR, INVALID_PARAMS, Json, ResourceContents
from refdesk.toolsets.contract import Completer, LogLevel, Prompt

RESOURCE_NOT_FOUND = -32002
MAX_COMPLETIONS = 100  # as MCP says
MAX_SUBSCRIPTIONS = 1000  # so that one client can't fill the memory; each poll looks at all of them

NewCall = Callable[[Context], ServerCall]
Handler = Callable[[Context, Any], Awaitable[HandlerResult]]


class ReadHandlers:
    """The handlers of `resources/*`, `prompts/*` and `completion/complete`."""

    def __init__(self, dispatcher: Dispatcher, new_call: NewCall) -> None:
        self._dispatcher = dispatcher
        self._new_call = new_call

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        registry = await self._dispatcher.registry()
        found = await self._run(ctx, lambda _: registry.resources())
        return page("resources", [to_json(each) for each in found], params, self._dispatcher.options.page_size)

    async def list_templates(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        found = [to_json(each) for each in (await self._dispatcher.registry()).templates()]
        return page("resourceTemplates", found, params, self._dispatcher.options.page_size)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> HandlerResult:
        registry, uri = await self._dispatcher.registry(), str(params.uri)
        try:
            contents = await self._run(ctx, partial(_read, registry, uri))
        except InputNeeded as needed:
            return input_required(needed, ctx)
        except NotFound as error:
            raise _not_found(ctx, uri, str(error)) from error
        if contents is None:
            raise _not_found(ctx, uri, f"Resource not found: {uri}")
        return {"contents": [clean(to_json(contents))]}

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        wanted: set[str] = connection_of(ctx).state.setdefault(SUBSCRIPTIONS, set())
        if len(wanted) >= MAX_SUBSCRIPTIONS:
            raise MCPError(INVALID_PARAMS, f"Too many subscriptions: {MAX_SUBSCRIPTIONS} is the most for one client.")
        wanted.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        connection_of(ctx).state.get(SUBSCRIPTIONS, set()).discard(str(params.uri))
        return types.EmptyResult()

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        found = [to_json(each) for each in (await self._dispatcher.registry()).prompts()]
        return page("prompts", found, params, self._dispatcher.options.page_size)

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> HandlerResult:
        registry, given = await self._dispatcher.registry(), params.arguments or {}
        prompt = _prompt(registry, params.name)
        missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
        if missing:
            raise MCPError(INVALID_PARAMS, f"Missing required argument: {missing[0]}")
        try:
            messages = await self._run(ctx, partial(prompt.render, given))
        except InputNeeded as needed:
            return input_required(needed, ctx)
        rendered = [{"role": role, "content": block_json(block, ctx.protocol_version)} for role, block in messages]
        return {"messages": rendered, **({"description": prompt.description} if prompt.description else {})}

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> HandlerResult:
        registry = await self._dispatcher.registry()
        completer = _completer(registry, params.ref, params.argument.name)
        settled = dict(params.context.arguments or {}) if params.context else {}
        values: Sequence[str] = ()
        if completer is not None:
            values = await self._run(ctx, lambda _: completer(params.argument.value, settled))
        shown: Json = {"values": list(values[:MAX_COMPLETIONS]), "total": len(values)}
        return {"completion": shown | {"hasMore": len(values) > MAX_COMPLETIONS}}

    async def _run(self, ctx: Context, work: Callable[[ServerCall], T]) -> T:
        call = self._new_call(ctx)
        try:
            return await self._dispatcher.run(partial(work, call), call, self._dispatcher.calls)
        except (NotFound, Cancelled, RpcError, MCPError):
            raise
        except InvalidInput as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except RefdeskError as error:
            raise MCPError(INTERNAL_ERROR, str(error), {"correlationId": call.correlation_id}) from error
        except Exception as error:
            raise self._dispatcher.unexpected_error(call.correlation_id, f"{ctx.method} failed", error) from error


def _read(registry: Registry, uri: str, call: ServerCall) -> ResourceContents | None:
    """The contents of the resource, or None if there is no such URI."""
    for template in registry.templates():
        if (found := UriTemplate.parse(template.uri_template).match(uri)) is not None:
            texts = {name: value if isinstance(value, str) else ",".join(value) for name, value in found.items()}
            return template.read(texts, call)
    for resource in registry.resources():
        if resource.uri == uri:
            return resource.read(call)
    return None


def _not_found(ctx: Context, uri: str, message: str) -> MCPError:
    # 2026-07-28 moved this from a code of its own to -32602.
    code = INVALID_PARAMS if is_modern(ctx.protocol_version) else RESOURCE_NOT_FOUND
    return MCPError(code, message, {"uri": uri})


def _prompt(registry: Registry, name: str) -> Prompt:
    for prompt in registry.prompts():
        if prompt.name == name:
            return prompt
    raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name}")


def _completer(registry: Registry, ref: Any, argument: str) -> Completer | None:
    if isinstance(ref, types.PromptReference):
        for known in _prompt(registry, ref.name).arguments:
            if known.name == argument:
                return known.complete
        raise MCPError(INVALID_PARAMS, f"Prompt {ref.name} has no argument '{argument}'.")
    for template in registry.templates():
        if template.uri_template == str(ref.uri):
            return template.complete.get(argument)
    raise MCPError(INVALID_PARAMS, f"Unknown resource template: {ref.uri}")


class Protocol:
    """The handlers of tools and connections, and the middleware; one instance for all connections."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.tasks = Tasks(dispatcher, self.new_call)
        self.reads = ReadHandlers(dispatcher, self.new_call)
        self._listening = ListenHandler(dispatcher.subscribers.bus)

    # ── tools ──

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        registry = await self.dispatcher.registry()
        listed = [tool_json(tool, ctx.protocol_version) for tool in registry.tools()]
        return page("tools", listed, params, len(listed) or 1)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        registry = await self.dispatcher.registry()
        tool = registry.tool(params.name)
        if tool is None:
            known = ", ".join(each.name for each in registry.tools())
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}. Known tools: {known}.")
        call = self.new_call(ctx)
        try:
            pool = self.dispatcher.calls if tool.hints.read_only else self.dispatcher.writes
            answer = await self.dispatcher.run_tool(tool, params.arguments or {}, call, pool)
        except InputNeeded as needed:
            return input_required(needed, ctx)
        return answer_json(answer, ctx.protocol_version)

    def new_call(self, ctx: Context, *, task_id: str | None = None) -> ServerCall:
        """The context of a call; a task's context outlives the request and notifies on the connection instead."""
        connection, options = connection_of(ctx), self.dispatcher.options
        meta = _meta(ctx)
        given, token = meta.get("correlationId"), meta.get("progressToken")
        ask = ask_function(ctx, options.ask_timeout_s, options.roots_timeout_s)
        return ServerCall(
            correlation_id=given if isinstance(given, str) and given else uuid.uuid4().hex,
            version=ctx.protocol_version,
            notify=(connection if task_id else channel_of(ctx)).notify,
            ask=self.tasks.ask_function(task_id) if task_id else ask,
            answerable=answerable_by(ctx.session.client_capabilities),
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
        with self.dispatcher.subscribers.listening(params.notifications.resource_subscriptions or ()):
            return await self._listening(ctx, params)

    # ── middleware ──

    async def guard(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Turns every exception into a JSON-RPC error that gives no internals away."""
        arrived.set(time.monotonic())
        try:
            return await call_next(ctx)
        except MCPError:
            raise
        except RpcError as error:
            raise MCPError(error.code, clean(error.message), clean(error.data)) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "params"
            raise MCPError(INVALID_PARAMS, f"Invalid params for {ctx.method}: {where}: {first['msg']}") from error
        except (Cancelled, InputNeeded) as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        except Exception as error:
            raise self.dispatcher.unexpected_error(uuid.uuid4().hex, f"{ctx.method} failed", error) from error

    async def greet(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Adds capabilities that the SDK can't declare to the `initialize` result, and registers the connection."""
        result = await call_next(ctx)
        if ctx.method != "initialize" or not isinstance(result, dict):
            return result
        self.dispatcher.subscribers.join(connection_of(ctx))
        offered: Json = result["capabilities"]
        for name in ("tools", "resources", "prompts"):
            if name in offered:
                offered[name]["listChanged"] = True
        if result["protocolVersion"] == "2025-11-25":
            offered["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return result


def build_server(dispatcher: Dispatcher) -> Server[Any]:
    """The SDK's server with our handlers and middleware, for any transport."""
    protocol, options = Protocol(dispatcher), dispatcher.options
    server: Server[Any] = Server(
        options.name,
        version=options.version,
        title=options.title,
        instructions=options.instructions,
        cache_hints=dict.fromkeys(get_args(CacheableMethod), CacheHint(ttl_ms=0, scope="private")),
        on_subscriptions_listen=protocol.listen,
    )
    reads, tasks = protocol.reads, protocol.tasks
    handlers: list[tuple[str, type[Any], Handler]] = [
        ("tools/list", types.PaginatedRequestParams, protocol.list_tools),
        ("tools/call", types.CallToolRequestParams, protocol.call_tool),
        ("resources/list", types.PaginatedRequestParams, reads.list_resources),
        ("resources/templates/list", types.PaginatedRequestParams, reads.list_templates),
        ("resources/read", types.ReadResourceRequestParams, reads.read),
        ("resources/subscribe", types.SubscribeRequestParams, reads.subscribe),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, reads.unsubscribe),
        ("completion/complete", types.CompleteRequestParams, reads.complete),
        ("logging/setLevel", types.SetLevelRequestParams, protocol.set_level),
        ("tasks/get", types.GetTaskRequestParams, tasks.get),
        ("tasks/list", types.PaginatedRequestParams, tasks.list),
        ("tasks/result", types.GetTaskPayloadRequestParams, tasks.result),
        ("tasks/cancel", types.CancelTaskRequestParams, tasks.cancel),
    ]
    if options.prompts:
        handlers.append(("prompts/list", types.PaginatedRequestParams, reads.list_prompts))
        handlers.append(("prompts/get", types.GetPromptRequestParams, reads.get_prompt))
    for method, params_type, handler in handlers:
        server.add_request_handler(method, params_type, _complete(handler))
    roots_changed = "notifications/roots/list_changed"
    server.add_notification_handler(roots_changed, types.NotificationParams, protocol.forget_roots)
    server.get_tool_input_schema = dispatcher.input_schema
    # Replaces the SDK's OpenTelemetry middleware too: our log has the correlation id.
    seal = RequestStateBoundary(RequestStateSecurity(keys=[options.state_key]), default_audience=options.name)
    server.middleware[:] = [protocol.guard, protocol.greet, seal, protocol.tasks.augment]
    return server


def _complete(handler: Handler) -> Handler:
    """Wraps a handler to mark its result as complete on 2026-07-28, unless it has a `resultType`."""

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
    """The lowest level of log messages that the client wants; None for no messages."""
    if is_modern(ctx.protocol_version):
        level = _meta(ctx).get(types.LOG_LEVEL_META_KEY)
    else:
        level = connection_of(ctx).state.get(LOG_LEVEL, "info")
    return level if level in LOG_LEVELS else None
