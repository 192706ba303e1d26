"""The command line: commands, aliases, exit codes."""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import sys
import threading
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from refdesk import __version__
from refdesk.commands.desk import LibraryPath
from refdesk.errors import RefdeskError
from refdesk.text import word_table

# command: (module, line in `refdesk --help`); a module is imported when one of its commands runs
COMMANDS = {
    "index": ("index", "Index a folder of code, docs or files."),
    "ingest": ("index", "Add a file, folder, web address or data: URI to a collection."),
    "search": ("search", "Search the library."),
    "grep": ("read", "Find a regular expression in what is indexed."),
    "get": ("read", "Print a document, some of its lines, a section or a playbook."),
    "research": ("read", "Answer a question about a codebase by following calls, types and imports."),
    "crawl": ("index", "Crawl a web site into the library."),
    "serve": ("serve", "Serve the library over MCP."),
    "console": ("serve", "Look at the library in the browser."),
    "install": ("install", "Tell a client (Claude Code, Cursor, VS Code, …) how to start the server."),
    "skills": ("skills", "List, show, export, import, rate and copy playbooks."),
    "docs": ("index", "Check a documentation corpus."),
    "eval": ("search", "Score the answers to queries with known answers."),
    "configure": ("library", "Change how a collection is chunked and searched."),
    "collections": ("library", "List the collections."),
    "documents": ("library", "List a collection's documents."),
    "stats": ("library", "Show the size of the library."),
    "remove": ("library", "Remove a collection or a document."),
    "status": ("library", "Show why a path is or is not indexed, and whether it is up to date."),
    "doctor": ("library", "Check the library and repair its indexes."),
    "backup": ("library", "Copy the library while it is in use."),
    "restore": ("library", "Restore a library from a backup."),
    "copy": ("library", "Copy a library to another folder or to servers."),
    "reembed": ("library", "Replace all vectors with those of the configured embedder."),
}

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed; 2 wrong usage, input or setting; 3 not found in the library; 4 outside the allowed"
    " roots; 5 could not be loaded or read; 6 embedding failed; 7 the library's files failed; 8 another writer did not"
    " finish in time; 9 a language model failed; 10 over max_memory; 130 interrupted, 143 told to end."
)
_ATTRIBUTES = {"eval": "eval_suite"}  # commands whose name is a Python builtin
_MEANT = word_table(
    "collections: list ls;  console: ui;  get: cat read show;  index: update;  ingest: add;  remove: delete rm;"
    "  research: ask;  search: find query;  serve: mcp start"
)


class _Commands(click.Group):
    """A group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"refdesk.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, _ATTRIBUTES.get(cmd_name, cmd_name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Adds a suggestion to the error for an unknown command."""
        if args[0] in COMMANDS or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        if " " in args[0]:
            raise click.UsageError(f"To search, say: refdesk search {shlex.quote(args[0])}", ctx)
        near = [_MEANT[args[0]]] if args[0] in _MEANT else get_close_matches(args[0], COMMANDS, 2)
        then = f"Did you mean {' or '.join(near)}?" if near else "`refdesk --help` lists the commands."
        raise click.UsageError(f"No such command {args[0]!r}. {then}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(cls=_Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--library",
    type=LibraryPath(file_okay=False, path_type=Path),
    help="The library's folder, or the address of a shared one (REFDESK_LIBRARY)."
    " Default: .refdesk in this folder or a parent, else your data folder.",
)
@click.option("--embedder", help="static, remote, onnx, wordllama or none (REFDESK_EMBEDDER).")
@click.version_option(__version__, prog_name="refdesk")
@click.pass_context
def cli(context: click.Context, /, **flags: Any) -> None:
    """A reference desk for AI agents: docs, code, pages and playbooks in one local library."""
    context.obj = flags


def main() -> None:
    """Runs the command line; every failure is one message and a documented exit code."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted. What was indexed before stays searchable.", err=True)
        sys.exit(130)
    except RefdeskError as error:
        from refdesk.commands.desk import shown

        click.echo(f"refdesk: {shown(str(error))}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def program() -> None:
    """The entry point of the `refdesk` script: runs `main`, then skips interpreter teardown."""
    main()
    if threading.active_count() > 1:
        return
    with contextlib.suppress(OSError):  # the reader is gone: the normal exit handles it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
