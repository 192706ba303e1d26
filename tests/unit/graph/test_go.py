"""A Go module whose callers and conforming types are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refdesk.graph import Graph, languages
from refdesk.graph.relations import overridden, overriders
from refdesk.model import Chunking
from refdesk.parse.code.parser import parse_code
from tests.unit.graph.indexed import callers, graph_of

FILES = {
    "go.mod": "module github.com/acme/desk/v2\n\ngo 1.22\n",
    "desk.go": """package desk

type Binder interface {
	Bind(c *Context, target any) error
}

type base struct {
	safe *Drawer
}

type Desk struct {
	base
	router  *router
	clerks  []*Clerk
	drawers map[string]*Drawer
}

type Gate struct{}

type Response struct{}

func (r *Response) Flush() {}

func New() *Desk { return &Desk{} }

func Open(name string) (*Desk, error) { return New(), nil }

func (d *Desk) First() *Clerk { return d.clerks[0] }

func (d *Desk) Serve() {
	d.router.find("x")
	d.safe.Lock()
	for _, clerk := range d.clerks {
		clerk.Greet()
	}
	for _, drawer := range d.drawers {
		drawer.Shut()
	}
}
""",
    "router.go": """package desk

type router struct{}

func (r *router) find(path string) {}

type Clerk struct{ Voice }

type Voice struct{}

func (v Voice) Greet() {}

type Drawer struct{}

func (d *Drawer) Shut() {}

func (d *Drawer) Lock() {}

// Serve is the context's; the comment says: d is Desk.
func (c *Context) Serve() {}

type Context struct{}

func (c *Context) Bind(target interface{}) error { return nil }

type Parrot struct{ Voice }

func (p Parrot) Greet() {}

type Shutter interface {
	Shut()
}

type logged struct {
	Shutter
	count int
}

func (l logged) Shut() {}

func (g *Gate) Shut() {}

type strict struct{}

func (s strict) Bind(c *Context, target interface{}) (err error) { return nil }
""",
    "desk_test.go": "package desk\n\ntype Dummy struct{}\n\nfunc (d Dummy) Shut() {}\n",
    "kit/kit.go": """package kit

import (
	"net/http"

	"github.com/acme/desk/v2"
	other "example.com/desk"
)

var shared = desk.New()

func made() {
	d := desk.New()
	d.Serve()
}

func opened() {
	d, err := desk.Open("x")
	d.Serve()
	err.Serve()
}

func given(d *desk.Desk) { d.Serve() }

func common() { shared.Serve() }

func at_once() { desk.New().Serve() }

func chained() { desk.New().First().Greet() }

func cast(v any) {
	if d, ok := v.(*desk.Desk); ok {
		d.Serve()
	}
}

func foreign(d *other.Desk, r *http.Response) {
	d.Serve()
	r.Flush()
}
""",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with graph_of(tmp_path_factory.mktemp("go"), FILES) as found:
        yield found


def test_a_package_is_found_by_its_module_and_not_by_its_version(graph: Graph) -> None:
    assert callers(graph, "Desk.Serve") == {"made", "opened", "given", "common", "at_once", "cast"}
    assert callers(graph, "New") == {"made", "at_once", "chained", "Open", ""}  # "": the file, where shared is made


def test_a_name_is_found_with_the_name_of_its_package(graph: Graph) -> None:
    """The module's, for a file in its folder."""
    assert [node.path for node in graph.find("desk.router")] == ["router.go"]
    assert [node.path for node in graph.find("kit.opened")] == ["kit/kit.go"]
    assert graph.find("kit.router") == []


def test_what_has_the_same_name_elsewhere_is_another(graph: Graph) -> None:
    assert callers(graph, "Context.Serve") == set()
    assert callers(graph, "Response.Flush") == set()


def test_fields_lead_to_types_of_other_files_of_the_package(graph: Graph) -> None:
    assert callers(graph, "router.find") == {"Desk.Serve"}
    assert callers(graph, "Voice.Greet") == {"Desk.Serve", "chained"}  # by embedding
    assert callers(graph, "Drawer.Shut") == {"Desk.Serve"}
    assert callers(graph, "Drawer.Lock") == {"Desk.Serve"}  # of a field that is promoted


def test_a_type_conforms_when_its_methods_take_and_give_the_same(graph: Graph) -> None:
    assert [edge.source.qualified for edge in graph.subtypes(graph.find("Binder")[0])] == ["strict"]
    method = next(one for one in graph.find("Bind") if one.qualified == "Binder.Bind")
    assert [edge.source.qualified for edge in overriders(graph, method)] == ["strict.Bind"]
    assert [one.qualified for one in overridden(graph, graph.find("strict.Bind")[0])] == ["Binder.Bind"]


def test_what_embeds_a_type_is_told_as_embedding_it_and_overrides_no_struct(graph: Graph) -> None:
    into = {(edge.source.qualified, edge.kind) for edge in graph.subtypes(graph.find("Voice")[0])}
    assert into == {("Clerk", "embeds"), ("Parrot", "embeds")}
    assert [(edge.target.qualified, edge.kind) for edge in graph.supertypes(graph.find("Parrot")[0])] == [
        ("Voice", "embeds")
    ]
    assert overriders(graph, graph.find("Voice.Greet")[0]) == []  # a Voice greets the same way inside a Parrot
    assert overridden(graph, graph.find("Parrot.Greet")[0]) == []


def test_what_embeds_an_interface_carries_it_out(graph: Graph) -> None:
    edges = graph.subtypes(graph.find("Shutter")[0])
    assert ("logged", "embeds") in {(edge.source.qualified, edge.kind) for edge in edges}
    methods = {edge.source.qualified for edge in overriders(graph, graph.find("Shutter.Shut")[0])}
    assert methods == {"Drawer.Shut", "logged.Shut", "Gate.Shut", "Dummy.Shut"}


def test_types_of_tests_come_last(graph: Graph) -> None:
    assert graph.subtypes(graph.find("Shutter")[0])[-1].source.qualified == "Dummy"


def test_a_method_that_stands_in_another_file_than_its_type_carries_out_an_interface(graph: Graph) -> None:
    assert [one.qualified for one in overridden(graph, graph.find("Gate.Shut")[0])] == ["Shutter.Shut"]


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("func (b B) Bind(c *echo.Context, target interface{}) (err error) {}", ["( 0 *Context,any>error"]),
        ("type I interface { Bind(*Context, any) error }", ["( 0 *Context,any>error"]),
        ("func (s S) F(a, b string, more ...int) {}", ["( 0 string,string,...int>"]),
        ("func (s S) Open(a int) (*pkg.Desk, error) {}", ["( 0 int>*Desk,error", "> 0 pkg.Desk,"]),
        ("func Map[K comparable](k K) (a, b []Item) {}", ["> 0 Item,Item"]),
    ],
)
def test_what_a_function_takes_and_gives_is_recorded_without_names_and_packages(code: str, facts: list[str]) -> None:
    symbol = parse_code(f"package p\n{code}\n", "p.go", "go", Chunking()).symbols[-1]
    assert [one for one in symbol.facts.split("\n") if one[0] in ">("] == facts


@pytest.mark.parametrize(
    ("module", "name"),
    [("github.com/labstack/echo/v5", "echo"), ("gopkg.in/yaml.v3", "yaml"), ("net/http", "http"), ("log", "log")],
)
def test_an_import_is_called_by_its_last_part_that_is_no_version(module: str, name: str) -> None:
    assert languages.go_name(module) == name


def test_values_of_values_are_each_looked_at_once(tmp_path: Path) -> None:
    levels, names = range(4, -1, -1), range(24)  # 24 ** 5 ways lead from the first to the last
    set_to = "".join(f"\tv{at}_{one} = v{at + 1}_{other}\n" for at in levels for one in names for other in names)
    made = "".join(f"\tv5_{one} := &Till{{}}\n" for one in names)
    head = "package p\n\ntype Till struct{}\n\nfunc (t *Till) Ring() {}\n\n"
    code = f"{head}func f() {{\n{made}{set_to}\tv0_0.Ring()\n}}\n"
    with graph_of(tmp_path, {"till.go": code}) as graph:
        assert callers(graph, "Till.Ring") == {"f"}
