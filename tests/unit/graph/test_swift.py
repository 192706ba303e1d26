"""A Swift package whose whole graph is known: every caller and every conforming type, none besides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from refdesk.app import open_desk
from refdesk.graph import Graph, Node
from refdesk.settings import Settings

FILES = {
    "Sources/Shop/Store.swift": """import Foundation

public protocol Storage {
    func load(key: String) throws -> Data
    func save(_ data: Data, key: String) throws
}

extension Storage {
    func copy(from: String, to: String) throws {
        try save(load(key: from), key: to)
    }
}

protocol Traced: AnyObject {
    var name: String { get }
}

extension Traced {
    func trace(_ text: String) {
        Log.shared.write("\\(name): \\(text)")
    }
}
""",
    "Sources/Shop/Log.swift": """final class Log {
    static let shared = Log()
    private init() {}

    func write(_ text: String) {
        print(Log.stamp() + text)
    }

    static func stamp() -> String {
        ""
    }
}
""",
    "Sources/Shop/Disk.swift": """struct Disk: Storage {
    enum Failure: Error {
        case missing(String)
    }

    struct Path {
        let root: String
        func file(_ key: String) -> String { root + key }
    }

    let path: Path

    init(root: String) {
        self.path = Path(root: root)
    }

    func load(key: String) throws -> Data {
        let name = path.file(key)
        guard !name.isEmpty else { throw Failure.missing(key) }
        return Data()
    }

    func save(_ data: Data, key: String) throws {
        _ = path.file(key)
    }
}
""",
    "Sources/Shop/Memory.swift": """final class Memory {
    var items: [String: Data] = [:]
    let name = "memory"
}
""",
    "Sources/Shop/Memory+Storage.swift": """extension Memory: Storage, Traced {
    func load(key: String) throws -> Data {
        trace("load")
        return items[key] ?? Data()
    }

    func save(_ data: Data, key: String) throws {
        trace("save")
        items[key] = data
    }
}
""",
    "Sources/Shop/Cart.swift": """actor Cart<Backend: Storage> {
    private let backend: Backend
    private lazy var disk = Disk(root: "/")

    init(backend: Backend) {
        self.backend = backend
    }

    func checkout(_ keys: [String]) throws {
        try keys.forEach { key in
            try self.pay(key)
        }
        try disk.save(Data(), key: "done")
    }

    private func pay(_ key: String) throws {
        _ = try disk.load(key: key)
    }
}

class Base {
    func open() { close() }
    func close() {}
}

final class Window: Base, Traced {
    let name = "window"
    override func close() {
        super.close()
        trace("closed")
    }
}

func audit(_ log: Log.Type) -> String {
    log.stamp()
}

func makeDisk() -> Disk {
    Disk(root: "/tmp")
}
""",
    "Sources/Shop/main.swift": """let window = Window()
window.open()

func run() throws {
    let store = makeDisk()
    try store.copy(from: "a", to: "b")
    let cart = Cart(backend: Memory())
    try cart.checkout([])
}

try run()
""",
}
CALLERS = {
    "Storage.copy": {"run"},
    "Storage.load": {"Storage.copy"},
    "Storage.save": {"Storage.copy"},
    "Traced.trace": {"Memory.load", "Memory.save", "Window.close"},
    "Log.write": {"Traced.trace"},
    "Log.stamp": {"Log.write", "audit"},
    "Disk.Path.file": {"Disk.load", "Disk.save"},
    "Disk.Path": {"Disk.init"},
    "Disk": {"Cart.disk", "makeDisk"},
    "Disk.load": {"Cart.pay"},
    "Disk.save": {"Cart.checkout"},
    "Cart.pay": {"Cart.checkout"},
    "Cart.checkout": {"run"},
    "Cart": {"run"},
    "Memory": {"run"},
    "Base.open": {"Sources/Shop/main.swift"},
    "Base.close": {"Base.open", "Window.close"},
    "Window": {"Sources/Shop/main.swift"},
    "makeDisk": {"run"},
    "run": {"Sources/Shop/main.swift"},
    "Memory.load": set(),
    "Window.close": set(),
}
SUBTYPES = {
    "Storage": {"Disk", "Memory"},
    "Traced": {"Memory", "Window"},
    "Base": {"Window"},
    "Disk.Failure": set(),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    root = tmp_path_factory.mktemp("swift")
    for name, text in FILES.items():
        (root / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "code" / name).write_text(text)
    with open_desk(Settings(library=root / "library", embedder="none", workers=1)) as desk:
        desk.index(root / "code", "code", name="code")
        yield desk.graph("code")


def node(graph: Graph, name: str) -> Node:
    exact = [one for one in graph.find(name) if one.qualified == name]
    assert len(exact) == 1, (name, exact)
    return exact[0]


@pytest.mark.parametrize("name", CALLERS)
def test_callers(graph: Graph, name: str) -> None:
    found = {edge.source.qualified or edge.source.path for edge in graph.callers(node(graph, name))}
    assert found == CALLERS[name]


@pytest.mark.parametrize("name", SUBTYPES)
def test_conforming_types(graph: Graph, name: str) -> None:
    assert {edge.source.qualified for edge in graph.subtypes(node(graph, name))} == SUBTYPES[name]


def test_an_extension_is_no_second_definition(graph: Graph) -> None:
    assert [one.kind for one in graph.find("Memory")] == ["class"]
    assert {one.name for one in graph.members(node(graph, "Memory"))} == {"items", "name", "load", "save"}
