"""The fixtures that `@modelcontextprotocol/conformance` asks of a server, on RefDesk's core."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from refdesk.errors import RpcError
from refdesk.server import ServerOptions, serve
from refdesk.toolsets.content import (
    Audio,
    Block,
    EmbeddedResource,
    Image,
    Json,
    ResourceContents,
    Text,
    TextErrors,
    ToolAnswer,
)
from refdesk.toolsets.contract import (
    Announcer,
    CallContext,
    Handler,
    Prompt,
    PromptArgument,
    Question,
    Resource,
    ResourceTemplate,
    Tool,
    ToolHints,
    Toolset,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
MISSING_CLIENT_CAPABILITY = -32021


def elicit(message: str, **properties: Json) -> Question:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Question("elicitation/create", {"message": message, "requestedSchema": schema})


def sample(text: str, most: int = 100) -> Question:
    said = {"role": "user", "content": {"type": "text", "text": text}}
    return Question("sampling/createMessage", {"messages": [said], "maxTokens": most})


def said(answer: Json) -> str:
    return f"action={answer['action']}, content={json.dumps(answer.get('content', {}))}"


def returning(*blocks: Block) -> Handler:
    return lambda arguments, ctx: ToolAnswer(tuple(blocks))


def fail(arguments: Json, ctx: CallContext) -> ToolAnswer:
    return ToolAnswer((Text("This tool intentionally returns an error for testing"),), is_error=True)


def log(arguments: Json, ctx: CallContext) -> ToolAnswer:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.tell("info", line)
        time.sleep(0.05)
    return ToolAnswer.of_text("logged")


def progress(arguments: Json, ctx: CallContext) -> ToolAnswer:
    for done in (0, 50, 100):
        ctx.progress(done, 100)
        time.sleep(0.05)
    return ToolAnswer.of_text("progressed")


def sampling(arguments: Json, ctx: CallContext) -> ToolAnswer:
    if ctx.sampler is None:
        return ToolAnswer((Text("The client has no sampling."),), is_error=True)
    return ToolAnswer.of_text(f"LLM response: {ctx.sampler(arguments['prompt'], max_tokens=100)}")


def elicitation(arguments: Json, ctx: CallContext) -> ToolAnswer:
    question = elicit(
        arguments["message"],
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return ToolAnswer.of_text(f"User response: <{said(ctx.ask({'user': question})['user'])}>")


def defaults(arguments: Json, ctx: CallContext) -> ToolAnswer:
    question = elicit(
        "Check the defaults",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return ToolAnswer.of_text(f"Elicitation completed: {said(ctx.ask({'form': question})['form'])}")


def enums(arguments: Json, ctx: CallContext) -> ToolAnswer:
    plain = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    question = elicit(
        "Choose",
        untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return ToolAnswer.of_text(f"Elicitation completed: {said(ctx.ask({'form': question})['form'])}")


NAME = {"type": "string"}


def ask_name(arguments: Json, ctx: CallContext) -> ToolAnswer:
    answer = ctx.ask({"user_name": elicit("What is your name?", name=NAME)})["user_name"]
    return ToolAnswer.of_text(f"Hello, {answer.get('content', {}).get('name')}!")


def ask_capital(arguments: Json, ctx: CallContext) -> ToolAnswer:
    answer = ctx.ask({"capital_question": sample("What is the capital of France?")})["capital_question"]
    return ToolAnswer.of_text(answer["content"]["text"])


def ask_roots(arguments: Json, ctx: CallContext) -> ToolAnswer:
    return ToolAnswer.of_text(json.dumps(ctx.ask({"client_roots": Question("roots/list")})["client_roots"]))


def ask_confirm(arguments: Json, ctx: CallContext) -> ToolAnswer:
    ctx.ask({"confirm": elicit("Please confirm", ok={"type": "boolean"})})
    return ToolAnswer.of_text("state-ok")


def ask_all(arguments: Json, ctx: CallContext) -> ToolAnswer:
    answers = ctx.ask(
        {
            "user_name": elicit("What is your name?", name=NAME),
            "greeting": sample("Generate a greeting", 50),
            "client_roots": Question("roots/list"),
        }
    )
    return ToolAnswer.of_text(", ".join(answers))


def ask_twice(arguments: Json, ctx: CallContext) -> ToolAnswer:
    name = ctx.ask({"step1": elicit("Step 1: What is your name?", name=NAME)})["step1"]
    color = ctx.ask({"step2": elicit("Step 2: What is your favorite color?", color=NAME)})["step2"]
    return ToolAnswer.of_text(f"{name['content']['name']} likes {color['content']['color']}")


def ask_what_it_can(arguments: Json, ctx: CallContext) -> ToolAnswer:
    wishes = {"name": elicit("What is your name?", name=NAME), "word": sample("Say a word")}
    able = {key: wish for key, wish in wishes.items() if ctx.client_can(wish.method)}
    return ToolAnswer.of_text(", ".join(ctx.ask(able)))


def need_sampling(arguments: Json, ctx: CallContext) -> ToolAnswer:
    if not ctx.client_can("sampling/createMessage"):
        needed: Json = {"requiredCapabilities": {"sampling": {}}}
        raise RpcError(MISSING_CLIENT_CAPABILITY, "This tool needs a client with sampling.", needed)
    return ToolAnswer.of_text("the client has sampling")


class Changes:
    """Tells clients that a list changed, when a fixture is called for it."""

    def __init__(self) -> None:
        self.announcer: Announcer | None = None

    def attach(self, announcer: Announcer) -> None:
        self.announcer = announcer

    def of(self, kind: Literal["tools", "prompts"]) -> Handler:
        def change(arguments: Json, ctx: CallContext) -> ToolAnswer:
            if self.announcer is not None:
                self.announcer.relisted(kind)
            return ToolAnswer.of_text("changed")

        return change


CHANGES = Changes()

SCHEMA_2020: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

RESOURCE = ResourceContents(
    uri="test://embedded-resource", mime_type="text/plain", text="This is an embedded resource content."
)
MIXED = ResourceContents(
    uri="test://mixed-content-resource", mime_type="application/json", text='{"test":"data","value":123}'
)


def tool(name: str, handler: Handler, **properties: Json) -> Tool:
    schema: Json = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(
        name=name,
        title=name,
        description=f"Fixture {name}",
        input_schema=SCHEMA_2020 if name == "json_schema_2020_12_tool" else schema,
        handler=handler,
        hints=ToolHints(read_only=True),
        error_style=TextErrors(),
    )


TOOLS = (
    tool("test_simple_text", returning(Text("This is a simple text response for testing."))),
    tool("test_image_content", returning(Image(PNG, "image/png"))),
    tool("test_audio_content", returning(Audio(WAV, "audio/wav"))),
    tool("test_embedded_resource", returning(EmbeddedResource(RESOURCE))),
    tool(
        "test_multiple_content_types",
        returning(Text("Multiple content types test:"), Image(PNG, "image/png"), EmbeddedResource(MIXED)),
    ),
    tool("test_tool_with_logging", log),
    tool("test_logging_tool", log),
    tool("test_error_handling", fail),
    tool("test_tool_with_progress", progress),
    tool("test_sampling", sampling, prompt={"type": "string"}),
    tool("test_elicitation", elicitation, message={"type": "string"}),
    tool("test_elicitation_sep1034_defaults", defaults),
    tool("test_elicitation_sep1330_enums", enums),
    tool("test_input_required_result_elicitation", ask_name),
    tool("test_streaming_elicitation", ask_name),
    tool("test_input_required_result_sampling", ask_capital),
    tool("test_input_required_result_list_roots", ask_roots),
    tool("test_input_required_result_request_state", ask_confirm),
    tool("test_input_required_result_tampered_state", ask_confirm),
    tool("test_input_required_result_multiple_inputs", ask_all),
    tool("test_input_required_result_multi_round", ask_twice),
    tool("test_input_required_result_capabilities", ask_what_it_can),
    tool("test_missing_capability", need_sampling),
    tool("test_trigger_tool_change", CHANGES.of("tools")),
    tool("test_trigger_prompt_change", CHANGES.of("prompts")),
    tool(
        "test_custom_headers",
        lambda arguments, ctx: ToolAnswer.of_text(arguments["region"]),
        region={"type": "string", "x-mcp-header": "Region"},
    ),
    tool("json_schema_2020_12_tool", returning(Text("ok"))),
)

Said = Sequence[tuple[Literal["user", "assistant"], Block]]


def _words(value: str, settled: Mapping[str, str]) -> Sequence[str]:
    return [word for word in ("paris", "park", "party") if word.startswith(value)]


def _with_arguments(given: Mapping[str, str], ctx: CallContext) -> Said:
    return [("user", Text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))]


def _with_resource(given: Mapping[str, str], ctx: CallContext) -> Said:
    embedded = ResourceContents(
        uri=given["resourceUri"], mime_type="text/plain", text="Embedded resource content for testing."
    )
    return [("user", EmbeddedResource(embedded)), ("user", Text("Please process the embedded resource above."))]


def _with_question(given: Mapping[str, str], ctx: CallContext) -> Said:
    answer = ctx.ask({"user_context": elicit("What context should the prompt use?", context=NAME)})["user_context"]
    return [("user", Text(f"Use this context: {answer['content']['context']}"))]


def _argument(name: str) -> PromptArgument:
    return PromptArgument(name=name, description=f"Fixture {name}", required=True, complete=_words)


PROMPTS = (
    Prompt(
        name="test_simple_prompt",
        description="Simple",
        render=lambda given, ctx: [("user", Text("This is a simple prompt for testing."))],
    ),
    Prompt(
        name="test_prompt_with_arguments",
        description="Two arguments",
        render=_with_arguments,
        arguments=(_argument("arg1"), _argument("arg2")),
    ),
    Prompt(
        name="test_prompt_with_embedded_resource",
        description="A resource",
        render=_with_resource,
        arguments=(_argument("resourceUri"),),
    ),
    Prompt(
        name="test_prompt_with_image",
        description="A picture",
        render=lambda given, ctx: [
            ("user", Image(PNG, "image/png")),
            ("user", Text("Please analyze the image above.")),
        ],
    ),
    Prompt(name="test_input_required_result_prompt", description="Asks", render=_with_question),
)


def _static(uri: str, mime_type: str, *, text: str | None = None, blob: str | None = None) -> Resource:
    contents = ResourceContents(uri=uri, mime_type=mime_type, text=text, blob=blob)
    return Resource(uri=uri, name=uri, description="Fixture", mime_type=mime_type, read=lambda ctx: contents)


def _resources() -> Sequence[Resource]:
    return [
        _static("test://static-text", "text/plain", text="This is the content of the static text resource."),
        _static("test://static-binary", "image/png", blob=PNG),
        _static("test://watched-resource", "text/plain", text="Watched."),
    ]


def _read_template(variables: Mapping[str, str], ctx: CallContext) -> ResourceContents:
    number = variables["id"]
    body = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
    return ResourceContents(uri=f"test://template/{number}/data", mime_type="application/json", text=json.dumps(body))


def make_toolsets() -> list[Toolset]:
    template = ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        mime_type="application/json",
        read=_read_template,
        complete={"id": lambda value, settled: ["123"]},
    )
    return [
        Toolset(
            name="conformance",
            tools=TOOLS,
            resources=_resources,
            templates=(template,),
            prompts=PROMPTS,
            attach=CHANGES.attach,
        )
    ]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    options = ServerOptions(version="1", transport="http", port=parser.parse_args().port, prompts=True)
    return serve(make_toolsets, options)


if __name__ == "__main__":
    sys.exit(main())
