"""What can be read besides tools: resources, templates, prompts and the completion of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate

from refdesk.errors import Cancelled, InvalidInput, NotFound, RefdeskError
from refdesk.server.call import InputNeeded, ServerCall, input_required
from refdesk.server.hub import SUBSCRIPTIONS, Hub
from refdesk.server.messages import block_on_wire, contents_on_wire, prompt_on_wire, resource_on_wire, template_on_wire
from refdesk.server.registry import Registry
from refdesk.server.sdk import Context, connection_of, is_modern, page
from refdesk.server.threads import T
from refdesk.toolsets.contract import INTERNAL_ERROR, INVALID_PARAMS, Completer, Json, Prompt, ResourceContents

RESOURCE_NOT_FOUND = -32002
MOST_COMPLETIONS = 100
MOST_SUBSCRIPTIONS = 1000

NewCall = Callable[[Context], ServerCall]


class Reading:
    """The handlers of `resources/*`, `prompts/*` and `completion/complete`."""

    def __init__(self, hub: Hub, new_call: NewCall) -> None:
        self._hub = hub
        self._new_call = new_call

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        registry = await self._hub.registry()
        found = await self._run(ctx, lambda _: registry.resources())
        return page("resources", [resource_on_wire(each) for each in found], params, self._hub.options.page_size)

    async def list_templates(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        registry = await self._hub.registry()
        found = [template_on_wire(each) for each in registry.templates()]
        return page("resourceTemplates", found, params, self._hub.options.page_size)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> HandlerResult:
        registry, uri = await self._hub.registry(), str(params.uri)
        try:
            contents = await self._run(ctx, partial(_read, registry, uri))
        except InputNeeded as needed:
            return input_required(needed, ctx)
        except NotFound as error:
            raise _not_found(ctx, uri, str(error)) from error
        if contents is None:
            raise _not_found(ctx, uri, f"Resource not found: {uri}")
        return {"contents": [contents_on_wire(contents)]}

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        wanted: set[str] = connection_of(ctx).state.setdefault(SUBSCRIPTIONS, set())
        if len(wanted) >= MOST_SUBSCRIPTIONS:
            raise MCPError(INVALID_PARAMS, f"Too many subscriptions: {MOST_SUBSCRIPTIONS} is the most for one client.")
        wanted.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        connection_of(ctx).state.get(SUBSCRIPTIONS, set()).discard(str(params.uri))
        return types.EmptyResult()

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        registry = await self._hub.registry()
        found = [prompt_on_wire(each) for each in registry.prompts()]
        return page("prompts", found, params, self._hub.options.page_size)

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> HandlerResult:
        registry, given = await self._hub.registry(), params.arguments or {}
        prompt = _prompt(registry, params.name)
        missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
        if missing:
            raise MCPError(INVALID_PARAMS, f"Missing required argument: {missing[0]}")
        try:
            messages = await self._run(ctx, partial(prompt.render, given))
        except InputNeeded as needed:
            return input_required(needed, ctx)
        said = [{"role": role, "content": block_on_wire(block, ctx.protocol_version)} for role, block in messages]
        return {"messages": said, **({"description": prompt.description} if prompt.description else {})}

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> HandlerResult:
        registry = await self._hub.registry()
        completer = _completer(registry, params.ref, params.argument.name)
        settled = dict(params.context.arguments or {}) if params.context else {}
        values: Sequence[str] = ()
        if completer is not None:
            values = await self._run(ctx, lambda _: completer(params.argument.value, settled))
        shown: Json = {"values": list(values[:MOST_COMPLETIONS]), "total": len(values)}
        return {"completion": shown | {"hasMore": len(values) > MOST_COMPLETIONS}}

    async def _run(self, ctx: Context, work: Callable[[ServerCall], T]) -> T:
        call = self._new_call(ctx)
        try:
            return await self._hub.run(partial(work, call), call, self._hub.calls)
        except (NotFound, Cancelled):
            raise
        except InvalidInput as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except RefdeskError as error:
            raise MCPError(INTERNAL_ERROR, str(error), {"correlationId": call.correlation_id}) from error
        except MCPError:
            raise
        except Exception as error:
            raise self._hub.mishap(call.correlation_id, f"{ctx.method} failed", error) from error


def _read(registry: Registry, uri: str, call: ServerCall) -> ResourceContents | None:
    """What the resource holds, or None if nothing here has that URI."""
    for template in registry.templates():
        variables = _variables(template.uri_template, uri)
        if variables is not None:
            return template.read(variables, call)
    for resource in registry.resources():
        if resource.uri == uri:
            return resource.read(call)
    return None


def _variables(template: str, uri: str) -> Mapping[str, str] | None:
    found = UriTemplate.parse(template).match(uri)
    if found is None:
        return None
    return {name: value if isinstance(value, str) else ",".join(value) for name, value in found.items()}


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
