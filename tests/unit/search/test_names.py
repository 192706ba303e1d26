"""Does a name find its definition before what only speaks of it?"""

from __future__ import annotations

import pytest

from refdesk.desk.desk import Desk
from refdesk.model import Query
from tests.conftest import Tree

FILES = {
    "web/adapters.py": '''class BaseAdapter:
    def send(self, request):
        """Sends what a subclass such as HTTPAdapter makes of it: HTTPAdapter send, HTTPAdapter send."""
        raise NotImplementedError


class HTTPAdapter(BaseAdapter):
    """The HTTPAdapter, whose send method sends."""

    def __init__(self, pool):
        self.pool = pool

    def send(self, request):
        return self.pool.urlopen(request)
''',
    "web/pool.py": """class Pool:
    def add(self, one):
        self.all.append(one)


def add(one):
    return one + 1
""",
    "tools/cache.py": """def lru_cache(size):
    return {}
""",
    "other/cache.py": """def clear(cache):
    cache.lru_cache.clear()
""",
    "screen.go": """package tea

// WithAltScreen starts in the alternate screen.
func WithAltScreen() Option {
	return nil
}
""",
    "options.go": """package tea

func run() {
	// func WithAltScreen is an option: func WithAltScreen
	use(WithAltScreen())
}
""",
    "lib.rs": """pub struct Parser;

impl Parser {
    pub fn line(&self) -> usize {
        0
    }
}

pub fn parser_of_line() {}
""",
    "guide.md": """# HTTPAdapter send

Call `HTTPAdapter.send` of class HTTPAdapter. A parser's line: Parser line, fn line.
""",
    "patch.ts": """export function patch(url: string) {
  return url;
}

export function ajaxPatch(url: string) {
  return patch(url);
}
""",
}


FILES |= {
    "Sources/Validator.swift": "public struct Validator<T: Decodable & Sendable>: Sendable {\n"
    "    public let validate: @Sendable (_ data: T) -> any ValidatorResult\n}\n",
    "Sources/Valid.swift": "extension Validator {\n    /// A Validator that validates nothing, a placeholder.\n"
    "    public static var valid: Validator<T> {\n        .init { _ in Validator.Valid() }\n    }\n}\n\n"
    "extension String {\n    var isValid: Bool { Validator(self).valid }\n}\n",
}


@pytest.fixture
def names(desk: Desk, tree: Tree) -> Desk:
    desk.index(tree(FILES), "code", name="names")
    return desk


@pytest.mark.parametrize(
    ("text", "path", "symbol"),
    [
        ("HTTPAdapter send", "web/adapters.py", "HTTPAdapter.send"),
        ("HTTPAdapter.send", "web/adapters.py", "HTTPAdapter.send"),
        ("class HTTPAdapter", "web/adapters.py", "HTTPAdapter"),
        ("Pool.add", "web/pool.py", "Pool.add"),
        ("pool.add", "web/pool.py", "Pool.add"),
        ("cache.lru_cache", "tools/cache.py", "lru_cache"),
        ("func WithAltScreen", "screen.go", "WithAltScreen"),
        ("Parser::line", "lib.rs", "Parser.line"),
        ("Parser line", "lib.rs", "Parser.line"),
        ("fn line", "lib.rs", "Parser.line"),
        ("function patch", "patch.ts", "patch"),
        ("Validator", "Sources/Validator.swift", "Validator"),
        ("String", "Sources/Valid.swift", "String"),
    ],
)
def test_the_definition_is_first(names: Desk, text: str, path: str, symbol: str) -> None:
    first = names.search(Query(text=text)).hits[0].stored
    assert (first.document.path, symbol in first.chunk.symbols) == (path, True)
