"""Whose method is called, by what the text says of the receiver's type."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from refdesk.graph import Graph
from refdesk.model import Chunking
from refdesk.parse.code.parser import parse_code
from tests.unit.graph.indexed import graph_of

FILES = {
    "kit/wire.py": """class Connection:
    def channel(self): ...
    def limit(self): ...
    def isoweekday(self): ...
""",
    "kit/shapes.py": """from typing import Protocol


class Shape(Protocol):
    def area(self): ...


class Round:
    def area(self): ...


Any_shape = Round | Shape


def create(kind) -> type[Shape]:
    class Shape:
        def area(self): ...

    return Shape


Square = create("square")


def extend(shape):
    return create(shape)
""",
    "kit/uses.py": """from __future__ import annotations

from typing import Optional, Union

import amqp
from datetime import datetime
from foreign import Connection

from kit import shapes
from kit.shapes import Any_shape, Round, Shape
from kit.wire import Connection as Wire


def of_the_imported(connection: Connection):
    connection.channel()


def of_the_alias(wire: Wire):
    wire.channel()


def of_a_union(shape: Optional[Union[str, Round]]):
    shape.area()


def of_an_alias(shape: Any_shape):
    shape.area()


def of_a_made_class():
    shapes.Square().area()


def of_a_local_class():
    Special = shapes.extend(shapes.Square)
    special = Special()
    special.area()


def of_a_loop(found: list[Round]):
    for one in found:
        one.area()


def of_a_closure(shape: Round):
    def inner():
        shape.area()

    return inner


def of_a_callback(make: Callable[[Round], None]):
    make.area()


def of_a_foreign_type(at: datetime, other: "Optional[datetime]"):
    at.isoweekday()
    other.isoweekday()
    made = amqp.connect()
    made.isoweekday()


def of_who_knows(at):
    at.isoweekday()


def of_a_query(session):
    session.query(amqp).limit()


class Maker:
    part = Round

    def build(self):
        return self.part().area()

    @classmethod
    def load(cls):
        made = cls.__new__(cls)
        return made.build()


def bound(self: Maker):
    return self.build()
""",
    "kit/testing/doubles.py": """from unittest.mock import Mock


class Gauge(Mock):
    def recalibrate(self): ...


class Bench:
    def check(self, gauge):
        gauge.recalibrate()
""",
    "kit/mixed.py": """class MockPump:
    def prime_it(self): ...


class PumpStub:
    def drain_it(self): ...
""",
    "kit/plant.py": """def reads(self_made, pump):
    self_made.recalibrate()
    pump.prime_it()
    pump.drain_it()
""",
    "kit/rehearsal.py": """from kit.mixed import MockPump


def names_it(pump: MockPump):
    pump.prime_it()
""",
    "kit/amqp_wire.py": """import amqp


class Connection(amqp.Connection):
    pass


def of_its_own(connection):
    return connection.channel()
""",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with graph_of(tmp_path_factory.mktemp("types"), FILES) as found:
        yield found


def callers(graph: Graph, path: str, name: str) -> set[str]:
    node = next(one for one in graph.find(name) if one.path == path and one.qualified == name)
    return {edge.source.qualified for edge in graph.callers(node)}


def test_a_type_is_what_the_file_imports_by_its_name(graph: Graph) -> None:
    assert callers(graph, "kit/wire.py", "Connection.channel") == {"of_the_alias"}


def test_what_a_foreign_call_gives_is_not_guessed(graph: Graph) -> None:
    assert callers(graph, "kit/wire.py", "Connection.limit") == set()
    assert callers(graph, "kit/wire.py", "Connection.isoweekday") == {"of_who_knows"}


def test_unions_aliases_loops_and_members_that_are_classes(graph: Graph) -> None:
    told = {"of_a_union", "of_an_alias", "of_a_loop", "of_a_closure.inner", "Maker.build"}
    assert callers(graph, "kit/shapes.py", "Round.area") == told


def test_a_class_that_a_function_gives_is_of_the_type_that_it_declares(graph: Graph) -> None:
    given = {"of_an_alias", "of_a_made_class", "of_a_local_class"}
    assert callers(graph, "kit/shapes.py", "Shape.area") == given
    assert callers(graph, "kit/shapes.py", "create.Shape.area") == set()


def test_what_stands_in_for_others_in_tests_is_not_guessed_elsewhere(graph: Graph) -> None:
    assert callers(graph, "kit/testing/doubles.py", "Gauge.recalibrate") == {"Bench.check"}
    assert callers(graph, "kit/mixed.py", "MockPump.prime_it") == {"names_it"}
    assert callers(graph, "kit/mixed.py", "PumpStub.drain_it") == {"reads"}  # what gRPC calls a client


def test_self_outside_of_a_class_is_what_it_is_annotated_with(graph: Graph) -> None:
    assert callers(graph, "kit/uses.py", "Maker.build") == {"Maker.load", "bound"}


@pytest.mark.parametrize(
    ("language", "code", "facts"),
    [
        ("python", "def f(one: 'Union[a.First, Second]' = None): one.go()", [":one 0 a.First|Second"]),
        ("python", "def f(one: Callable[[First], Second]): one.go()", []),
        ("python", "def f():\n    if one: First(2)\n    one.go()", []),
        ("python", "def f(self):\n    for key, one in enumerate(self.all): one.go()", ["~one 1 self.all"]),
        ("python", "def f():\n    for one in enumerate(): one.go()", []),
        ("python", "def f():\n    return make(\n        1,\n    )", ["< 1 make()"]),
        ("python", "def f():\n    Part = kit.Round if fast else Square\n    Part()", ["=Part 1 kit.Round|Square"]),
        ("python", "async def f(self):\n    self.one = await a.make(1)\n    self.one.go()", ["=one 1 a.make()"]),
        ("python", "def f(one):\n    unused = make()\n    one.go()", []),
        ("swift", "func f() { let one: (any First)? = nil; one.go() }", [":one 0 First"]),
        ("rust", "fn f(one: &mut Vec<First>) -> io::Result<Second> { one.go() }", [":one 0 First", "> 0 Second"]),
        ("typescript", "function f(one: First | Second) { one.go() }", [":one 0 First|Second"]),
        ("typescript", "function f(one: (it: First) => Second) { one.go() }", []),
        ("typescript", "function f() { for (const one of this.all) { one.go() } }", ["~one 0 this.all"]),
        ("go", "func f(one *pkg.First) { two, err := one.Go(); two.Do(); err.No() }", None),
        ("java", "class A { First f(Second one) { one.go(); } }", [":one 0 Second", "> 0 First"]),
        ("csharp", "class A { void F() { var one = new First(); one.Go(); } }", [":one 0 First"]),
        ("cpp", "Status A::F(const Second& one) { one.go(); }", [":one 0 Second", "> 0 Status"]),
        (
            "php",
            "<?php function f(First $one) { $two = $one->make(); $two->go(); }",
            [":one 0 First", "=two 0 one.make()"],
        ),
        ("ruby", "def f\n  @one = First.new(1)\n  @one.go\nend", [":one 1 First"]),
        ("scala", "class A { def f(one: First): Second = one.go() }", [":one 0 First", "> 0 Second"]),
        ("kotlin", "fun f(one: First?): Second { val two = one.make(); two.go() }", None),
    ],
)
def test_what_a_grammar_says_of_variables_and_results_is_recorded(
    language: str, code: str, facts: list[str] | None
) -> None:
    symbol = parse_code(code if language != "go" else f"package p\n{code}", "p", language, Chunking()).symbols[-1]
    if facts is None:
        facts = {
            "go": [":one 0 pkg.First", "=two 0 one.Go()", "=err 0 one.Go()#1"],
            "kotlin": [":one 0 First", "=two 0 one.make()", "> 0 Second"],
        }[language]
    assert sorted(symbol.facts.split("\n")) == sorted(facts or [""])
