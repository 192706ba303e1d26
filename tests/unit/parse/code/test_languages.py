"""What is read in each language: symbols by qualified name, and the relations the graph needs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from refdesk.model import Chunking, Parsed
from refdesk.parse.code.languages import EXTENSIONS, LANGUAGES
from refdesk.parse.code.parser import parse_code

FIXTURES = {path.suffix[1:]: path for path in (Path(__file__).parents[3] / "fixtures" / "code").iterdir()}


@cache
def parsed(extension: str, max_tokens: int = 512) -> Parsed:
    path = FIXTURES[extension]
    chunking = Chunking(max_tokens=max_tokens)
    return parse_code(path.read_text("utf-8"), path.name, EXTENSIONS[extension], chunking)


SYMBOLS = {
    "swift": """
        enum SessionError, case SessionError.refused, case SessionError.unknown, property SessionError.isFatal,
        protocol Loadable, type Loadable.Output, constructor Loadable.init, method Loadable.load, struct Clamped,
        class SessionStore, property SessionStore.sessions, destructor SessionStore.deinit, actor Cache,
        subscript SessionStore.subscript, method SessionStore.load, struct SessionStore.Token,
        enum SessionStore.Token.Scope, case SessionStore.Token.Scope.write, extension SessionStore,
        method SessionStore.makeIterator, extension Array, method Array.sortedByDate, operator <>, function <>,
        macro stringify, function debugOnly, function releaseOnly, property ContentView.body, function map""",
    "py": """
        constant TIMEOUT, constant Alias, function connect, function handle_close.inner, class Client,
        property Client.retries, class Client.Config, property Client.Config.strict, method Client.url,
        method Client.fetch, function test_client_fetches""",
    "ts": """
        constant RETRIES, type Result, interface Loader, method Loader.load, enum Color, case Color.Green,
        class Service, property Service.cache, method Service.constructor, method Service.handle,
        method Service.decode, function fallback, function useThing, module Geometry, function Geometry.area,
        class default""",
    "tsx": "interface Props, property Props.onClose, function Dialog, function Dialog.close",
    "js": """
        function readFile, class Queue, property Queue.items, method Queue.push, method Queue.generate,
        method Queue.drain, function later, function legacy, function hidden""",
    "go": """
        variable ErrMissing, constant Small, interface Store, method Store.Get, method Store.Put, struct Item,
        field Item.Key, type Handler, struct Memory, function NewMemory, method Memory.Get, method Item.String""",
    "rs": """
        constant LIMIT, struct Point, field Point.x, struct Meters, enum Shape, case Shape.Unit, trait Area,
        method Area.describe, impl Point, method Point.new, method Point.map, impl Shape, method Shape.area,
        method Meters.fmt, macro square, module inner, function inner.helper, function tests.makes_a_point""",
    "java": """
        class Store, field Store.LIMIT, field Store.spare, constructor Store.Store, method Store.find,
        enum Store.State, case Store.State.OPEN, interface Store.Listener, record Store.Pair,
        annotation Store.Marker""",
    "kt": """
        variable LIMIT, type Handler, class Store, property Store.client, constructor Store.init, method Store.find,
        method Store.create, class Store.Entry, interface Listener, enum Color, case Color.RED, class Result.Ok,
        object Registry, method String.shout, function main""",
    "c": """
        constant LIMIT, macro SQUARE, type uint_t, struct point, field point.y, struct item_t, field item_t.callback,
        enum color, case color.GREEN, union value, variable counter, prototype item_find, function item_find,
        function point_new, function debug""",
    "cpp": """
        type Map, namespace app, class Shape, constructor Shape.Shape, destructor Shape.~Shape, method Shape.area,
        method Shape.operator==, field Shape.items_, enum Shape.State, struct Point, method Shape.make,
        constructor Engine.Engine, destructor Engine.~Engine, method Engine.run, function main""",
    "m": """
        protocol Loadable, method Loadable.loadFrom, property Loadable.name, class SessionStore,
        extension SessionStore, impl SessionStore, method SessionStore.initWithName, function helper""",
    "cs": """
        class Store, field Store.Limit, property Store.OnChange, constructor Store.Store, destructor Store.~Store,
        property Store.Count, subscript Store.this, method Store.FindAsync, operator Store.operator==,
        enum Store.State, interface IStore, record Person, struct Point, type Handler""",
    "rb": """
        module Store, constant Store.LIMIT, class Store.Memory, property Store.Memory.name, method Store.Memory.find,
        method Store.Memory.create, method Store.Memory.shared, class Store.Item, function helper""",
    "php": """
        constant LIMIT, class Store, property Store.VERSION, property Store.items, method Store.__construct,
        method Store.touch, interface Repository, trait Loggable, enum Status, case Status.Open, function helper""",
    "scala": """
        class Store, property Store.items, method Store.find, type Store.Key, object Store, method Store.apply,
        trait Listener, class Pair, object Empty, enum Color, case Color.Red, method String.shout, function main""",
    "sh": "variable TARGET, function log, function build_all",
    "lua": "variable M, method M.find, method M.close, function helper, method M.later, function global_one",
    "ex": """
        module App.Store, function App.Store.find, function App.Store.size, macro App.Store.define,
        module App.Store.Error, protocol App.Area, impl App.Circle, method App.Circle.area""",
    "sql": """
        table users, field users.team_id, index users_name_idx, view active_users, function touch_user,
        trigger users_touch, type mood""",
    "hs": "type Shape, interface HasArea, method HasArea.area, function double, function main",
    "dart": "class Point, property Point.x, constructor Point.Point, method Point.sum, enum Color, function main",
    "zig": "constant std, struct Point, method Point.sum, function main",
    "jl": "module M, struct M.Point, function M.add",
    "proto": "struct User, field User.name, interface Users, method Users.Get",
    "vue": "interface Props, property Props.title, constant count, function increment",
    "svelte": "constant name, function greet",
    "r": "variable LIMIT, function keep, method keep.data.frame, class Mask, method Mask.initialize",
    "mk": "variable CC, target build-all, macro greet",
    "cmake": "variable ENABLE_TLS, function add_part, macro note_part, target parts-core",
    "tf": "variable create, variable enable_logs, resource aws_log_group.my-logs, resource kms, variable arn",
    "hcl": "resource web, variable ui",
    "erl": "module shop, record item, type price, macro MOST, function total, function open",
    "ml": "type shape, case shape.Square, constant limit, function walk, module Cart, function Cart.add",
    "mli": "function total, type t, case t.B",
    "clj": "type Order, variable limit, function add-item",
    "gleam": "type Item, case Item.Item, function total",
}


@pytest.mark.parametrize("extension", SYMBOLS)
def test_symbols(extension: str) -> None:
    found = {f"{symbol.kind} {symbol.qualified}" for symbol in parsed(extension).symbols}
    assert {" ".join(entry.split()) for entry in SYMBOLS[extension].split(",")} <= found


def test_every_language_of_the_table_has_a_fixture() -> None:
    assert {EXTENSIONS[extension] for extension in SYMBOLS} == set(LANGUAGES)


RELATIONS = {
    "swift": """
        SessionStore inherits BaseStore; SessionStore conforms Loadable; SessionStore conforms Sequence;
        SessionError conforms Error; Loadable conforms Sendable; SessionStore.load calls client.session.data;
        SessionStore.load calls self.update; SessionStore.load calls JSONDecoder; ContentView.body calls SessionRow;
        <> calls merge; debugOnly calls stringify; SessionStore.load references URL; ContentView conforms View""",
    "py": """
        Client inherits Base; Client inherits mixins.Mixin; connect calls Connection; connect references handle_close;
        connect calls conn.session.headers.update; Client.url calls self._build; Client.fetch calls ClientError;
        Client.fetch references Response; handle_close.inner calls np.zeros""",
    "ts": """
        Service inherits core.BaseService; Service conforms Loader; Service conforms Disposable; Loader inherits Other;
        Service.load calls this.http.get; Service.load calls this.decode; Service.load references fallback;
        Service.cache calls Map; useThing calls useState""",
    "tsx": "Dialog calls Button; Dialog calls Layout.Frame; Dialog references Props",
    "js": "Queue inherits EventEmitter; readFile calls fs.readFileSync; later references readFile; legacy calls Queue",
    "go": """
        Store inherits io.Closer; Item inherits sync.Mutex; Item inherits Base; Memory.Get calls fmt.Errorf;
        TestGet calls NewMemory; TestGet references handle; Store.Get references Item; handle calls process""",
    "rs": """
        Shape conforms Area; Meters conforms fmt.Display; Area inherits Named; Shape.area calls geometry.unit_area;
        Shape.area references helper; Area.describe calls self.name; tests.makes_a_point calls Point.new""",
    "java": """
        Store inherits BaseStore; Store conforms Closeable; Store.Listener inherits EventListener;
        Store.find calls items.get; Store.find calls this.touch; Store.touch calls Factory.create""",
    "kt": """
        Store inherits BaseStore; Store conforms Closeable; Result.Ok inherits Result; Store.find calls touch;
        Store.find calls client.session.get; Store.create calls Client""",
    "c": "item_find calls helper; item_find calls items.callback; point_new calls p->ops.init",
    "cpp": """
        Shape inherits Base; Shape inherits detail.Named; Shape.area calls std.make_unique; Engine.run calls args.size;
        Shape.make calls detail.Circle""",
    "m": """
        SessionStore inherits BaseStore; SessionStore conforms Loadable; SessionStore.initWithName calls super.init;
        SessionStore.initWithName calls self.client.session.startWithHandler; SessionStore.shared calls MakeShared""",
    "cs": """
        Store inherits BaseStore; Store conforms IDisposable; IStore inherits IEnumerable; Person inherits Entity;
        Store.FindAsync calls _client.Session.GetAsync; Store.FindAsync calls Options""",
    "rb": """
        Store.Memory inherits Base.Store; Store.Memory conforms Enumerable; Store.Memory.touch calls Factory.build;
        Store.Memory.find calls touch""",
    "php": """
        Store inherits BaseStore; Store conforms Repository; Store inherits Loggable; Store.find calls Item;
        Store.find calls static.touch; Store.touch calls helper""",
    "scala": """
        Store inherits BaseStore; Store conforms Closeable; Store conforms Listener; Empty inherits Shape;
        Store.find calls client.session.get; Store.apply calls Store""",
    "sh": "build_all calls log; build_all calls compile_one",
    "lua": "M.find calls M.client.session.get; M.later references helper; global_one calls M.find",
    "ex": "App.Store.find calls Cache.get; App.Circle conforms App.Area; App.Store conforms App.Repository",
    "sql": "active_users references sessions; users_touch calls touch_user; users references teams",
    "vue": "increment calls load; increment references count",
    "svelte": "greet calls load",
    "r": "keep calls check; keep.data.frame calls vctrs.vec_slice",
    "tf": "aws_log_group.my-logs references create; aws_log_group.my-logs references enable_logs",
    "erl": "total calls total; open calls shop_queue.declare",
    "ml": "total calls List.length; Cart.add calls total",
    "clj": "add-item calls check-item",
    "gleam": "total calls sum",
}


@pytest.mark.parametrize("extension", RELATIONS)
def test_relations(extension: str) -> None:
    found = set()
    for ref in parsed(extension).references:
        receiver = ref.receiver.replace("::", ".")
        found.add(f"{ref.source} {ref.kind} {receiver + '.' if receiver else ''}{ref.target}")
    assert {" ".join(entry.split()) for entry in RELATIONS[extension].split(";")} <= found


IMPORTS = {
    "swift": "Foundation Foundation, UIKit UIView, NetworkKit NetworkKit",
    "py": "os.path path, numpy numpy np, collections.abc Iterable, collections.abc Mapping M, . sibling, .deep.er *",
    "ts": """react useState, react FC Component, react default React, node:path * path, ./side-effect side-effect,
        ./helpers helper assist, ./types *""",
    "js": "fs fs, node:path join, node:path resolve absolute",
    "go": "context context, github.com/sirupsen/logrus logrus log, net/http/pprof pprof, os os",
    "rs": """std::collections::hash_map Entry, std::collections::hash_map HashMap Map, std::collections BTreeMap,
        crate::net *, self::inner Thing, serde serde""",
    "java": "java.util List, java.util *, org.junit.Assert assertEquals",
    "kt": "kotlinx.coroutines.flow Flow, java.util Date JavaDate, com.example.util *",
    "c": "stdio.h stdio.h, store/item.h item.h",
    "m": "Foundation/Foundation.h Foundation.h, UIKit UIKit",
    "cs": "System System, System.Collections.Generic Generic, System.Text StringBuilder Alias, System.Math Math",
    "rb": "json json, ./base base",
    "php": r"App\Models Item, App\Contracts Repository, App\Contracts Cache CacheContract, App helper",
    "scala": "scala.collection.mutable Map MutableMap, scala.collection.mutable ListBuffer, java.util *",
    "sh": "./lib/common.sh common.sh",
    "lua": "cjson cjson json, app.util util",
    "ex": "GenServer GenServer, Ecto.Query Query, App.Item Item, App.Cache Cache, App.Clock Clock Time",
}


@pytest.mark.parametrize("extension", IMPORTS)
def test_imports(extension: str) -> None:
    refs = [ref for ref in parsed(extension).references if ref.kind == "imports"]
    found = {" ".join(filter(None, (ref.receiver, ref.target, ref.alias))) for ref in refs}
    assert {" ".join(entry.split()) for entry in IMPORTS[extension].split(",")} <= found


def test_a_chunk_carries_signature_documentation_and_breadcrumb() -> None:
    chunks = {chunk.key: chunk for chunk in parsed("swift", 90).chunks}
    load = chunks["SessionStore.load"]
    assert load.kind == "method"
    assert load.breadcrumb == ("sample.swift", "SessionStore")
    assert load.signature.startswith("@discardableResult public func load(from url: URL) async throws")
    assert load.doc_comment == "Loads everything from a server."
    outline = chunks["SessionStore-outline"]
    assert (outline.kind, outline.start_line, outline.end_line) == ("outline", 43, 92)
    assert chunks["SessionStore"].doc_comment == "Keeps sessions alive."


def test_python_docstrings_and_comments() -> None:
    chunks = {chunk.key: chunk for chunk in parsed("py").chunks}
    assert chunks["connect"].doc_comment == "Open a connection.\n\nSecond paragraph."
    assert chunks["Client"].start_line == 38  # with the comment and the decorators above
    assert chunks["test_client_fetches"].kind == "test"


def test_a_large_type_gives_an_outline_and_its_members() -> None:
    methods = "\n".join(
        f"    def method_{n}(self, value: int) -> int:\n        '''Says {n}.'''\n" + "        self.x += value\n" * 12
        for n in range(40)
    )
    text = f'class Large(Base):\n    """Has many methods."""\n\n{methods}'
    chunks = parse_code(text, "large.py", "python", Chunking()).chunks
    assert chunks[0].kind == "outline"
    assert chunks[0].tokens <= 512
    assert "Has many methods." in chunks[0].text
    assert [chunk.title for chunk in chunks if chunk.kind == "method"] == [f"method_{n}" for n in range(40)]


def test_swift_conditional_compilation_inside_a_class() -> None:
    text = "class A: B {\n    init() {\n        #if DEBUG\n        check()\n        #endif\n    }\n\n    #if os(iOS)\n"
    text += "    func show() {}\n    #else\n    func hide() {}\n    #endif\n}\n"
    parsed_text = parse_code(text, "a.swift", "swift", Chunking())
    assert {symbol.qualified for symbol in parsed_text.symbols} >= {"A", "A.init", "A.show", "A.hide"}
    assert parsed_text.notes == ()


@pytest.mark.parametrize(
    "head",
    [
        "actual open class Text internal actual constructor(",
        "actual open class Text\ninternal actual constructor(",
        "expect class Text<T>\n/** Shared: { is open. */\ninternal constructor(",
        "class Text\nconstructor(",
    ],
)
def test_kotlin_modifiers_of_constructors_and_platforms(head: str) -> None:
    body = "  internal val data: ByteArray,\n) : Kept, Other {\n  fun size() = 1\n}\n"
    text = f"package kit\n\n{head}\n{body}\nfun f() {{}}\n"
    parsed = parse_code(text, "a.kt", "kotlin", Chunking())
    assert [symbol.qualified for symbol in parsed.symbols] == ["Text", "Text.data", "Text.size", "f"]
    assert parsed.symbols[0].signature.startswith(head.partition("\n")[0].partition("<")[0])
    assert parsed.notes == ()


def test_an_emoji_behind_a_brace_does_not_end_the_process() -> None:
    text = "greet() {\n  echo {\U0001f680\x9b é ${name}\n}\n"
    parsed = parse_code(text, "a.sh", "bash", Chunking())
    assert [symbol.name for symbol in parsed.symbols] == ["greet"]
    assert "\U0001f680" in parsed.chunks[0].text
