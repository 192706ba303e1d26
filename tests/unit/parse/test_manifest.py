"""A corpus prepared for docs-mcp works unchanged."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from refdesk.errors import InvalidInput
from refdesk.model import Chunking, Content
from refdesk.parse import AnyParser
from refdesk.parse.prose.manifest import ManifestSet, Strategy, load_manifests, read_manifest
from refdesk.text.globs import manifest_glob

EXAMPLE = {
    "$schema": "https://example.com/schema.json",
    "version": "1",
    "metadata": {"language": "typescript", "scope": "sdk-specific"},
    "strategy": {"chunk_by": "h2", "max_chunk_size": 8000, "min_chunk_size": 200},
    "taxonomy": {"language": {"vector_collapse": True, "properties": {"python": {"mcp_resource": True}}}},
    "mcpServerInstructions": "Use the search tool.",
    "overrides": [
        {"pattern": "models/**/*.md", "strategy": {"chunk_by": "file"}},
        {"pattern": "guides/advanced/*.md", "metadata": {"scope": "global-guide"}},
        {"pattern": "models/deep/*.md", "strategy": {"chunk_by": "h3"}, "metadata": {"scope": "deep"}},
    ],
}


def manifests(tmp_path: Path, **files: object) -> ManifestSet:
    for folder, content in files.items():
        target = tmp_path / folder.replace("root", "").replace("__", "/")
        target.mkdir(parents=True, exist_ok=True)
        (target / ".docs-mcp.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return load_manifests(tmp_path)


def test_the_documented_example(tmp_path: Path) -> None:
    found = manifests(tmp_path, root=EXAMPLE)
    plain = found.for_path("readme.md")
    assert plain.strategy == Strategy(chunk_by="h2", max_chunk_size=8000, min_chunk_size=200)
    assert plain.metadata == {"language": "typescript", "scope": "sdk-specific"}
    assert found.for_path("models/a/b.md").strategy == Strategy(chunk_by="file")
    assert found.for_path("models/b.md").strategy == Strategy(chunk_by="file")
    assert found.for_path("guides/advanced/x.md").metadata["scope"] == "global-guide"
    assert found.for_path("guides/advanced/x.md").metadata["language"] == "typescript"
    assert found.instructions == "Use the search tool."
    assert found.taxonomy == {"language": ""}


def test_the_last_match_wins(tmp_path: Path) -> None:
    governing = manifests(tmp_path, root=EXAMPLE).for_path("models/deep/x.md")
    assert governing.strategy == Strategy(chunk_by="h3")
    assert governing.metadata["scope"] == "deep"


def test_the_nearest_manifest_governs_alone(tmp_path: Path) -> None:
    inner = {"version": "1", "overrides": [{"pattern": "*.md", "metadata": {"area": "auth"}}]}
    found = manifests(tmp_path, root=EXAMPLE, sdks__python=inner)
    assert found.for_path("sdks/python/auth.md").metadata == {"area": "auth"}
    assert found.for_path("sdks/python/auth.md").strategy == Strategy()
    assert found.for_path("sdks/python/deep/auth.md").metadata == {}
    assert found.for_path("sdks/pythonic/auth.md").metadata == EXAMPLE["metadata"]


def test_front_matter_beats_overrides_beat_the_baseline(tmp_path: Path) -> None:
    manifest = {
        "version": "1",
        "metadata": {"scope": "base", "level": "base", "area": "base"},
        "taxonomy": {"audience": {"description": "Who reads it"}},
        "overrides": [{"pattern": "**/*.md", "metadata": {"level": "override", "area": "override"}}],
    }
    parser = AnyParser(manifests(tmp_path, root=manifest))
    text = "---\naudience: beginners\nsidebar: 3\nmetadata:\n  area: front\n---\n# T\n\nbody\n"
    parsed = parser.parse(Content(uri="", path="a.md", data=text.encode()), Chunking())
    facets = {"scope": "base", "level": "override", "area": "front", "audience": "beginners"}
    assert parsed.chunks[0].metadata == facets
    assert parsed.metadata == {**facets, "sidebar": "3"}


def test_every_format_carries_the_manifests_metadata(tmp_path: Path) -> None:
    parser = AnyParser(manifests(tmp_path, root={"version": "1", "metadata": {"scope": "base"}}))
    texts = {
        "a.json": '{"a": 1}',
        "a.py": "x = 1\n",
        "a.rst": "T\n=\n\nx",
        "a.txt": "x",
        "a.html": "<main>words</main>",
    }
    for path, text in texts.items():
        parsed = parser.parse(Content(uri="", path=path, data=text.encode()), Chunking())
        assert parsed.metadata["scope"] == parsed.chunks[0].metadata["scope"] == "base"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{nope", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "version"),
        ({"version": "2"}, 'Only "version": "1"'),
        ({"version": "1", "strategy": {"chunk_by": "h4"}}, "one of: h1, h2, h3, file"),
        ({"version": "1", "strategy": {"chunk_by": "h2", "max_chunk_size": -1}}, "positive integer"),
        ({"version": "1", "metadata": {"a": []}}, "metadata.a must be a non-empty string"),
        ({"version": "1", "metadata": {"a": " "}}, "metadata.a must be a non-empty string"),
        ({"version": "1", "overrides": [{}]}, r"overrides\[0\].pattern is missing"),
        ({"version": "1", "overrides": [{"pattern": "{a,b}" * 20}]}, r"overrides\[0\].pattern can't be used: .* many"),
        ({"version": "1", "overrides": [{"pattern": "*"}] * 1001}, "1001 overrides"),
        ({"version": "1", "overrides": {}}, "must be an array"),
        ({"version": "1", "taxonomy": {"a": 1}}, "taxonomy.a must be an object"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        manifests(tmp_path, sub=content)
    assert "sub/.docs-mcp.json" in str(error.value)


def test_unknown_keys_are_listed_and_survived() -> None:
    manifest = read_manifest(b'{"version": "1", "stratgy": {}, "overrides": [{"pattern": "*", "meta": {}}]}')
    assert manifest.unknown == ("stratgy", "overrides[0].meta")


def test_manifests_travel_to_other_processes(tmp_path: Path) -> None:
    found = manifests(tmp_path, root=EXAMPLE)
    assert pickle.loads(pickle.dumps(AnyParser(found)))._manifests == found


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.md", "a.md", True),
        ("*.md", "b/a.md", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "b/c/a.md", True),
        ("**", "b/c/a.md", True),
        ("guides/**", "guides/a/b.md", True),
        ("guides/**", "guides2/a.md", False),
        ("**/*.{md,mdx}", "x/a.mdx", True),
        ("{a,b}/*.md", "c/a.md", False),
        ("file?.md", "file1.md", True),
        ("file[0-9].md", "file1.md", True),
        ("file[!0-9].md", "file1.md", False),
        ("!*.md", "a.md", False),
        ("!*.md", "a.txt", True),
        ("!(internal)/*.md", "public/a.md", True),
        ("!(internal)/*.md", "internal/a.md", False),
        ("@(a|b).md", "b.md", True),
        ("v{1..3}/*.md", "v2/a.md", True),
        ("./a.md", "a.md", True),
        (".hidden/*.md", ".hidden/a.md", True),
        ("*", ".hidden", True),
        ("a+b(c).md", "a+b(c).md", True),
        ("[unclosed", "[unclosed", True),
        ("{unclosed", "{unclosed", True),
        ("!(internal).md", "internals.md", True),
        ("!(internal).md", "internal.md", False),
        ("+(a|b).md", "abba.md", True),
        ("+(a|b).md", ".md", False),
        ("*(a|b).md", ".md", True),
        ("*(a|b).md", "abc.md", False),
        ("{a}.md", "{a}.md", True),
    ],
)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert bool(manifest_glob(pattern).fullmatch(path)) is matches
