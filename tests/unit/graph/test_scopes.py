"""Names that are handed on by barrels, defined in blocks of tests, or asked of a type that is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refdesk.graph import Graph
from tests.unit.graph.indexed import callers, graph_of

FILES = {
    "src/checks/string/contains.ts": "export function contains(a: string, b: string) { return a.includes(b); }\n",
    "src/checks/index.ts": "export * from './string/contains';\n",
    "src/index.ts": "export * from './checks';\n",
    "src/use.ts": """import { contains } from './index';

export function used() { return contains('a', 'b'); }
""",
    "test/blocks.spec.ts": """import { contains } from '../src/checks';

describe('first', () => {
  function expectTitle(one) { return contains(one, 'x'); }
  it('works', () => { expectTitle('1'); });
});

describe('second', () => {
  function expectTitle(one) { return one; }
  it('works', () => { expectTitle('2'); });
});
""",
    "Sources/Kit/Parts.swift": """struct Size {
    init(width: Int) {}
}

enum Outcome {
    case finished(Int)
}

struct Crate {
    let size: Size
    init() { self.size = .init(width: 1) }
    func grown() -> Crate { .init() }
    func measured() -> Size { return .init(width: 2) }
    var other: Size = .init(width: 3)
    func ended() { report(.finished(2)) }
    func report(_ outcome: Outcome) {}
}
""",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with graph_of(tmp_path_factory.mktemp("scopes"), FILES) as found:
        yield found


def lines(graph: Graph, name: str) -> list[list[tuple[str, int]]]:
    return [[(edge.source.path, edge.line) for edge in graph.callers(node)] for node in graph.find(name)]


def test_a_star_hands_on_what_another_module_exports(graph: Graph) -> None:
    assert lines(graph, "contains") == [[("src/use.ts", 3), ("test/blocks.spec.ts", 4)]]


def test_a_package_of_a_monorepo_hands_on_what_another_exports(tmp_path: Path) -> None:
    files = {
        "packages/shared/slow/index.ts": "export function slow() { return 1 }\n",
        "packages/shared/src/index.ts": "export * from '../slow'\n",
        "packages/core/index.ts": "export * from './fast'\nexport * from '@demo/shared'\n",
        "packages/core/fast.ts": "export function fast() { return 2 }\n",
        "packages/app/core.ts": "export function slow() { return 3 }\n",
        "packages/app/use.ts": "import { slow } from '@demo/core'\n\nexport function used() { return slow() }\n",
    }
    with graph_of(tmp_path, files) as graph:
        found = {node.path: [edge.source.path for edge in graph.callers(node)] for node in graph.find("slow")}
        assert found == {"packages/shared/slow/index.ts": ["packages/app/use.ts"], "packages/app/core.ts": []}


def test_functions_in_blocks_are_the_last_one_before_the_call(graph: Graph) -> None:
    assert lines(graph, "expectTitle") == [[("test/blocks.spec.ts", 5)], [("test/blocks.spec.ts", 10)]]


def test_an_init_without_a_type_is_of_the_type_that_is_wanted(graph: Graph) -> None:
    path = "Sources/Kit/Parts.swift"
    assert lines(graph, "Crate.init") == [[(path, 12)]]
    assert lines(graph, "Size.init") == [[(path, 11), (path, 13), (path, 14)]]
    assert lines(graph, "Outcome.finished") == [[(path, 15)]]


def test_a_call_in_c_means_no_struct_of_that_name(tmp_path: Path) -> None:
    files = {
        "pane.h": "struct pane_resize {\n  int sx;\n};\nvoid pane_resize(struct pane *, int);\n",
        "pane.c": "void pane_resize(struct pane *p, int sx) {\n  p->sx = sx;\n}\n",
        "use.c": "void fix(struct pane *p) {\n  pane_resize(p, 1);\n}\n",
    }
    with graph_of(tmp_path, files) as graph:
        found = {node.kind: [edge.source.name for edge in graph.callers(node)] for node in graph.find("pane_resize")}
        assert found == {"struct": [], "prototype": ["fix"], "function": ["fix"]}
        (fix,) = graph.find("fix")
        assert {edge.target.kind for edge in graph.callees(fix)} == {"prototype", "function"}


def test_elixir_calls_mean_their_own_module_or_one_that_is_imported(tmp_path: Path) -> None:
    files = {
        "lib/server.ex": "defmodule App.Server do\n  @spec join(term, term) :: :ok\n  def join(a, b), do: {a, b}\n\n"
        "  def inspect(a), do: a\nend\n",
        "lib/scope.ex": "defmodule App.Scope do\n  def route(a), do: join(a, 1, 2)\n\n"
        "  defp join(a, b, c), do: {a, b, c}\nend\n",
        "lib/user.ex": "defmodule App.User do\n  import App.Server\n\n  def go(:a), do: 1\n\n"
        "  def go(:b), do: join(1, 2)\nend\n",
        "lib/other.ex": "defmodule App.Other do\n  use App.Server\n  @callback join(a :: term) :: term\nend\n",
        "lib/more.ex": "defmodule App.More do\n  def run(a), do: inspect(a)\nend\n",
    }
    with graph_of(tmp_path, files) as graph:
        assert callers(graph, "App.Server.join") == {"App.User.go"}
        assert callers(graph, "App.Scope.join") == {"App.Scope.route"}
        assert callers(graph, "inspect") == set()
        (call,) = graph.callers(graph.find("App.Server.join")[0])
        assert (call.source.start_line, call.line) == (6, 6)  # the clause that calls
        (server,) = graph.find("App.Server")
        assert [edge.source.qualified for edge in graph.subtypes(server)] == ["App.Other"]


def test_a_module_of_terraform_is_a_folder_and_a_package_of_r_is_one_namespace(tmp_path: Path) -> None:
    used = 'resource "bucket" "logs" {\n  count = var.keep && true ? 1 : 0\n}\n'
    files = {
        **{f"{folder}variables.tf": 'variable "keep" {\n  default = true\n}\n' for folder in ("", "inner/")},
        **{f"{folder}main.tf": used for folder in ("", "inner/")},
        "R/mask.R": "mask <- function(x) {\n  x\n}\n",
        "R/keep.R": "keep.data.frame <- function(.data) {\n  mask(data.frame(.data))\n}\n",
    }
    with graph_of(tmp_path, files) as graph:
        inner, outer = (graph.users(node) for node in graph.find("keep") if node.kind == "variable")
        assert [edge.source.path for edge in inner] == ["inner/main.tf"]
        assert [edge.source.path for edge in outer] == ["main.tf"]
        assert callers(graph, "mask") == {"keep.data.frame"}
        assert callers(graph, "keep.data.frame") == set()


def test_a_crate_is_named_by_its_manifest_not_by_its_folder(tmp_path: Path) -> None:
    files = {
        "compiler-core/Cargo.toml": '[package]\nname = "gleam-core"\nversion = "1.0.0"\n\n[dependencies]\n',
        "compiler-core/src/lib.rs": "pub mod io;\n",
        "compiler-core/src/io.rs": "pub trait Reader {\n    fn read(&self) -> bool;\n}\n",
        "compiler-cli/Cargo.toml": '[package]\nname = "gleam-cli"\n',
        "compiler-cli/src/fs.rs": "use gleam_core::{io::Reader};\n\npub struct Disk;\n\n"
        "impl Reader for Disk {\n    fn read(&self) -> bool { true }\n}\n",
    }
    with graph_of(tmp_path, files) as graph:
        (reader,) = graph.find("Reader")
        assert [edge.source.qualified for edge in graph.subtypes(reader)] == ["Disk"]


def test_erlang_modules_are_files_and_behaviours_are_modules(tmp_path: Path) -> None:
    files = {
        "deps/a/src/shop_queue.erl": "-module(shop_queue).\n-callback declare(atom()) -> ok.\n\n"
        "declare(Name) when is_atom(Name) ->\n    ok;\ndeclare(_) ->\n    error.\n",
        "deps/b/src/shop_stream.erl": "-module(shop_stream).\n-behaviour(shop_queue).\n\n"
        "open(Name) ->\n    shop_queue:declare(Name), other:declare(Name).\n\nagain() -> ?MODULE:open(a).\n",
        "deps/b/src/other.erl": "-module(other).\ndeclare(_) -> no.\n",
    }
    with graph_of(tmp_path, files) as graph:
        first = graph.find("shop_queue:declare")[0]
        assert first.path == "deps/a/src/shop_queue.erl"
        assert [edge.source.qualified for edge in graph.callers(first)] == ["open"]
        assert callers(graph, "open") == {"again"}
        (behaviour,) = graph.find("shop_queue")
        assert [edge.source.path for edge in graph.subtypes(behaviour)] == ["deps/b/src/shop_stream.erl"]
