"""Known graphs of small codebases in several languages."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.errors import NotFound
from refdesk.graph import Graph, Node
from refdesk.graph.relations import overriders
from refdesk.settings import Settings
from refdesk.store.record import schema
from tests.ports.library import make_version_8
from tests.unit.graph.indexed import graph_of

PYTHON = {
    "shop/__init__.py": "from .store import Store\n",
    "shop/store.py": """from __future__ import annotations

import json
from typing import Protocol


class Backend(Protocol):
    def load(self, key: str) -> str: ...
    def save(self, key: str, value: str) -> None: ...


class Store:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, key: str) -> str:
        return json.loads(self._backend.load(key))

    def put(self, key: str, value: str) -> None:
        self.check(key)
        self._backend.save(key, value)

    def check(self, key: str) -> None:
        assert key


class Cached(Store):
    def get(self, key: str) -> str:
        return super().get(key)
""",
    "shop/memory.py": """class Memory:
    def load(self, key: str) -> str:
        return self.items[key]

    def save(self, key: str, value: str) -> None:
        self.items[key] = value
""",
    "shop/app.py": """from shop import store as s
from shop.store import Cached, Store
from .memory import Memory as Mem


def build() -> Store:
    return Cached(Mem())


def main() -> None:
    store = build()
    shelf = Store(Mem())
    shelf.put("a", "b")
    print(shelf.get("a"))


def other(basket):
    basket.get("x")
    s.Store(None).check("k")
    {}.get("y")
""",
}
TYPESCRIPT = {
    "src/shape.ts": """export interface Shape {
  area(): number;
}

export abstract class Base implements Shape {
  abstract area(): number;
  describe(): string {
    return `${this.area()}`;
  }
}
""",
    "src/circle.ts": """import { Base } from "./shape";

export class Circle extends Base {
  constructor(private radius: number) {
    super();
  }
  area(): number {
    return square(this.radius);
  }
}

export function square(x: number): number {
  return x * x;
}
""",
    "src/main.ts": """import { Circle, square as sq } from "./circle";
import type { Shape } from "./shape";

export function total(shapes: Shape[]): number {
  const circle = new Circle(2);
  circle.describe();
  return sq(3);
}
""",
}
GO = {
    "store/store.go": """package store

type Reader interface {
	Read(key string) (string, error)
	Close() error
}

type Disk struct{ path string }

func (d *Disk) Read(key string) (string, error) { return load(d.path, key) }
func (d *Disk) Close() error { return nil }

type Half struct{}

func (h *Half) Read(key string) (string, error) { return "", nil }

func load(path, key string) (string, error) { return path + key, nil }
""",
    "main.go": """package main

import "example.com/app/store"

func run(disk *store.Disk) error {
	_, err := disk.Read("x")
	return err
}

func main() { run(nil) }
""",
}
RUST = {
    "src/lib.rs": """pub trait Draw {
    fn draw(&self) -> String;
}

pub struct Circle { pub r: f64 }

impl Draw for Circle {
    fn draw(&self) -> String { render(self.r) }
}

impl Circle {
    pub fn new(r: f64) -> Self { Circle { r } }
}

fn render(r: f64) -> String { format!("{}", r) }
""",
    "src/main.rs": """use crate::Circle;

fn main() {
    let circle = Circle::new(1.0);
    circle.draw();
}
""",
}
SWIFT = {
    "Sources/Animal.swift": """protocol Animal {
    func speak() -> String
}

class Dog: Animal {
    func speak() -> String { bark() }
    func bark() -> String { "woof" }
}
""",
    "Sources/Cat.swift": """struct Cat {
    let name: String
}

extension Cat: Animal {
    func speak() -> String { name }
}
""",
    "Sources/Kennel.swift": """actor Kennel {
    private let dog = Dog()

    func wake() -> String {
        dog.speak()
    }
}
""",
}
JAVA = {
    "src/app/Job.java": "package app;\n\npublic interface Job {\n    void run();\n}\n",
    "src/app/Mail.java": """package app;

public class Mail implements Job {
    @Override
    public void run() { send(); }

    private void send() { Log.write("sent"); }
}
""",
    "src/app/Log.java": "package app;\n\nclass Log {\n    static void write(String text) { }\n}\n",
    "src/app/Main.java": """package app;

public class Main {
    public static void main(String[] args) {
        Mail mail = new Mail();
        mail.run();
    }
}
""",
}

PARTS = {
    "kit/base.py": """class Channel:
    def table(self):
        return {}


def make() -> Channel:
    return Channel()
""",
    "kit/hub.py": "from .base import Channel, make\n",
    "kit/redis.py": """from . import base


class Channel(base.Channel):
    def bind(self):
        return self.table()
""",
    "kit/disk.py": """from .hub import Channel as Parent, make


class Channel(Parent):
    def table(self):
        return super().table()


def run():
    made = make()
    made.table()
    make().table()
    shared.table()


shared = Channel()
""",
    "tests/test_kit.py": """from kit.hub import Channel


def make():
    return Channel()


def test_table():
    assert make().table() == {}
""",
}
KNOTS = {
    "knots.py": """class Outer:
    def make(self):
        class Inner(self.Inner):
            def run(self):
                return self.walk()

        return Inner().run()

    def again(self):
        made = made.again()
        made = self.again().again()
        return made.make()
""",
}
RUST_WORKSPACE = {
    "crates/matcher/src/lib.rs": """pub trait Matcher {
    fn find(&self) -> bool;
}

impl<'a, M: Matcher> Matcher for &'a M {
    fn find(&self) -> bool { (*self).find() }
}
""",
    "crates/regex/src/matcher.rs": """use grep_matcher::Matcher;

pub struct RegexMatcher { on: bool }

impl RegexMatcher {
    pub fn new() -> RegexMatcher { RegexMatcher { on: true } }
}

impl Matcher for RegexMatcher {
    fn find(&self) -> bool { self.on }
}
""",
    "crates/regex/src/lib.rs": "mod matcher;\npub use crate::matcher::RegexMatcher;\n",
    "crates/core/main.rs": """use grep_regex::RegexMatcher;

mod index;

fn main() { run(); }

fn run() -> bool { RegexMatcher::new().find() }
""",
    "crates/core/index.rs": "pub fn again() -> bool { crate::run() }\n",
}


@pytest.fixture
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Graph]:
    files: Mapping[str, str] = request.param
    root = tmp_path / "code"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.index(root, "code", name="code")
        yield desk.graph("code")


def one(graph: Graph, name: str) -> Node:
    found = [node for node in graph.find(name) if node.kind not in ("extension", "impl")]
    assert len(found) == 1, (name, found)
    return found[0]


def callers(graph: Graph, name: str) -> set[str]:
    return {edge.source.qualified or edge.source.path for edge in graph.callers(one(graph, name))}


def callees(graph: Graph, name: str) -> set[str]:
    return {edge.target.qualified for edge in graph.callees(one(graph, name))}


def subtypes(graph: Graph, name: str) -> set[str]:
    return {edge.source.qualified for edge in graph.subtypes(one(graph, name))}


python = pytest.mark.parametrize("graph", [PYTHON], indirect=True, ids=["python"])
typescript = pytest.mark.parametrize("graph", [TYPESCRIPT], indirect=True, ids=["typescript"])
go = pytest.mark.parametrize("graph", [GO], indirect=True, ids=["go"])
rust = pytest.mark.parametrize("graph", [RUST], indirect=True, ids=["rust"])
swift = pytest.mark.parametrize("graph", [SWIFT], indirect=True, ids=["swift"])
parts = pytest.mark.parametrize("graph", [PARTS], indirect=True, ids=["parts"])
workspace = pytest.mark.parametrize("graph", [RUST_WORKSPACE], indirect=True, ids=["workspace"])
knots = pytest.mark.parametrize("graph", [KNOTS], indirect=True, ids=["knots"])
java = pytest.mark.parametrize("graph", [JAVA], indirect=True, ids=["java"])


@python
def test_python(graph: Graph) -> None:
    assert callers(graph, "Store.put") == {"main"}
    assert callers(graph, "Store.get") == {"main", "Cached.get"}
    assert callers(graph, "Store.check") == {"Store.put", "other"}
    assert callers(graph, "build") == {"main"}
    assert callers(graph, "Memory") == {"build", "main"}
    assert callers(graph, "Backend.load") == {"Store.get"}
    assert subtypes(graph, "Store") == {"Cached"}
    assert subtypes(graph, "Backend") == {"Memory"}
    assert "Store.check" in callees(graph, "Store.put")
    assert {edge.source.qualified for edge in overriders(graph, one(graph, "Store.get"))} == {"Cached.get"}
    importers = {edge.source.path for edge in graph.importers(one(graph, "Store"))}
    assert {"shop/app.py", "shop/__init__.py"} <= importers


@typescript
def test_typescript(graph: Graph) -> None:
    assert subtypes(graph, "Shape") == {"Base"}
    assert subtypes(graph, "Base") == {"Circle"}
    assert callers(graph, "square") == {"Circle.area", "total"}
    assert callers(graph, "Circle") == {"total"}
    assert callers(graph, "Base.describe") == {"total"}
    assert "Base.area" in callees(graph, "Base.describe")


@go
def test_go(graph: Graph) -> None:
    assert subtypes(graph, "Reader") == {"Disk"}
    assert callers(graph, "load") == {"Disk.Read"}
    assert callers(graph, "Disk.Read") == {"run"}
    assert callers(graph, "run") == {"main"}


@rust
def test_rust(graph: Graph) -> None:
    assert subtypes(graph, "Draw") == {"Circle"}
    assert callers(graph, "render") == {"Circle.draw"}
    assert callers(graph, "Circle.new") == {"main"}
    assert callers(graph, "Circle.draw") == {"main"}


@swift
def test_swift(graph: Graph) -> None:
    assert subtypes(graph, "Animal") == {"Dog", "Cat"}
    assert callers(graph, "Dog.speak") == {"Kennel.wake"}
    assert callers(graph, "Dog.bark") == {"Dog.speak"}
    assert callers(graph, "Dog") == {"Kennel.dog"}
    assert callers(graph, "Cat.speak") == set()


@java
def test_java(graph: Graph) -> None:
    assert subtypes(graph, "Job") == {"Mail"}
    assert callers(graph, "Mail.send") == {"Mail.run"}
    assert callers(graph, "Log.write") == {"Mail.send"}
    assert callers(graph, "Mail.run") == {"Main.main"}


@python
def test_every_edge_has_a_confidence(graph: Graph) -> None:
    for name in ("Store", "Store.get", "build", "Memory"):
        for edge in (*graph.callers(one(graph, name)), *graph.callees(one(graph, name))):
            assert 0.5 <= edge.confidence <= 1.0
            assert edge.line >= 1


def exact(graph: Graph, path: str, name: str) -> Node:
    return next(node for node in graph.find(name) if node.path == path)


def into(graph: Graph, path: str, name: str) -> set[str]:
    return {f"{edge.source.path}:{edge.source.qualified}" for edge in graph.callers(exact(graph, path, name))}


@parts
def test_classes_of_one_name_are_told_apart_by_their_bases(graph: Graph) -> None:
    base = graph.subtypes(exact(graph, "kit/base.py", "Channel"))
    assert {edge.source.path for edge in base} == {"kit/redis.py", "kit/disk.py"}
    assert "kit/redis.py:Channel.bind" in into(graph, "kit/base.py", "Channel.table")
    assert "kit/disk.py:run" in into(graph, "kit/disk.py", "Channel.table")
    assert "kit/redis.py:Channel.bind" not in into(graph, "kit/disk.py", "Channel.table")


@parts
def test_names_are_followed_through_modules_that_hand_them_on(graph: Graph) -> None:
    assert into(graph, "kit/base.py", "make") == {"kit/disk.py:run"}
    assert into(graph, "tests/test_kit.py", "make") == {"tests/test_kit.py:test_table"}
    assert "tests/test_kit.py:make" in into(graph, "kit/base.py", "Channel")


@parts
def test_a_few_callers_are_the_nearest(graph: Graph) -> None:
    some = graph.callers(exact(graph, "kit/base.py", "Channel"), 1)
    assert some[0].source.path == "kit/base.py"


@workspace
def test_crates_of_a_workspace(graph: Graph) -> None:
    assert subtypes(graph, "Matcher") == {"M", "RegexMatcher"}
    assert callers(graph, "RegexMatcher") == {"run"}
    assert callers(graph, "run") == {"main", "again"}
    assert callers(graph, "RegexMatcher.find") == {"run"}


@knots
def test_what_is_named_by_itself_comes_to_an_end(graph: Graph) -> None:
    for name in ("run", "make", "again", "Inner", "Outer"):
        for node in graph.find(name):
            assert isinstance([*graph.callers(node), *graph.callees(node), *graph.subtypes(node)], list)


def test_files_that_were_indexed_without_facts_are_parsed_again(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "shop.py").write_text(
        "class Till:\n    def run(self): ...\n\n\nclass Other:\n    def run(self): ...\n\n\n"
        "def use(it: Till):\n    it.run()\n"
    )
    settings = Settings(library=tmp_path / "library", embedder="none", workers=1)
    with open_desk(settings) as desk:
        desk.index(tmp_path / "code", "code", name="code")
    with closing(sqlite3.connect(tmp_path / "library" / "record.db")) as db:
        make_version_8(db)
        db.execute("ALTER TABLE symbols DROP COLUMN facts")  # as it was before
        db.execute("DROP TABLE playbook_outcomes")
        db.execute("DROP TABLE ref_packs")
        db.execute("DROP TABLE ref_targets")
        db.execute("CREATE TABLE refs (document, position, kind, source, target, line, receiver, alias)")
        db.execute(f"PRAGMA user_version = {schema.MIGRATIONS.index(schema._add_facts)}")
        db.commit()
    with open_desk(settings) as desk:
        assert callers(desk.graph("code"), "Till.run") == set()
        assert desk.index(tmp_path / "code", "code", name="code").written == 1
        assert callers(desk.graph("code"), "Till.run") == {"use"}
        assert desk.index(tmp_path / "code", "code", name="code").written == 0


def test_a_file_that_is_removed_meanwhile_is_told(tmp_path: Path) -> None:
    with graph_of(tmp_path, {"a.py": "def run():\n    pass\n"}) as graph:
        [node] = graph.find("run")
        with pytest.raises(NotFound, match=r"a\.py was removed while it was looked at\. Ask again\."):
            graph.file_of(replace(node, document_id="01GONE"))
