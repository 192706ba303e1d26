"""Settings in, wired application out: the only place that names concrete classes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from refdesk.desk.parts import Order, Parts, Watching
from refdesk.errors import RefdeskError, SettingsError
from refdesk.library import Library
from refdesk.settings import Settings, ToolsetName, set_for_native
from refdesk.system import memory

if TYPE_CHECKING:
    from refdesk.console.journal import Journal
    from refdesk.desk.desk import Desk
    from refdesk.ingest.prepare import Progress, Report
    from refdesk.ingest.writer import ParsePool
    from refdesk.llm.thinkers import Models
    from refdesk.model import Collection, CollectionKind, Content, Finding, Found, Skipped
    from refdesk.ports import Embedder, Parser, Source, Store
    from refdesk.skills.model import PlaybookStore
    from refdesk.store.record.crawls import Crawls
    from refdesk.toolsets.contract import Toolset

# numpy is loaded after this: OpenBLAS's threads, which nothing here uses, would spin for .1 s as they start.
set_for_native("OPENBLAS_THREAD_TIMEOUT", "4")

_READING = ("tree_sitter", "tree_sitter_language_pack", "selectolax", "markdown_it", "yaml", "pypdfium2", "docx")


def _embedder(settings: Settings) -> Embedder | None:
    match settings.embedder:
        case "none":
            return None
        case "static":
            from refdesk.embed.static import StaticEmbedder

            return StaticEmbedder()
        case "wordllama":
            from refdesk.embed.wordllama import WordllamaEmbedder

            return WordllamaEmbedder()
        case "remote":
            from refdesk.embed.remote import RemoteEmbedder

            url, model = settings.embedder_url, settings.embedder_model
            if not url or not model:
                raise SettingsError("The remote embedder has no address.", "Set embedder_url and embedder_model.")
            return RemoteEmbedder(base_url=url, model=model, api_key=settings.embedder_key)
        case "onnx":
            from refdesk.embed.onnx import OnnxEmbedder

            if not settings.embedder_path:
                raise SettingsError("The onnx embedder has no model.", "Set embedder_path to its folder or file.")
            queries, passages = settings.embedder_query_prefix, settings.embedder_passage_prefix
            path = Path(settings.embedder_path).expanduser()
            return OnnxEmbedder(path, query_prefix=queries, passage_prefix=passages)


def _store(settings: Settings) -> Store:
    if settings.database:
        from refdesk.store.shared.store import SharedStore

        return SharedStore(
            settings.database,
            lock_timeout_s=settings.lock_timeout_s,
            api_key=settings.qdrant_api_key,
            beside=Library(settings.library),
        )
    from refdesk.store.local import LocalStore

    return LocalStore(settings.library, lock_timeout_s=settings.lock_timeout_s, durability=settings.durability)


def _playbooks(settings: Settings, store: Store) -> PlaybookStore:
    if settings.skills == "neo4j":
        from refdesk.store.neo4j import Neo4jPlaybooks

        return Neo4jPlaybooks(settings.neo4j_uri, settings.neo4j_user, settings.neo4j_password, settings.neo4j_database)
    from refdesk.store.playbooks import RecordPlaybooks
    from refdesk.store.record.access import RecordAccess

    assert isinstance(store, RecordAccess)
    return RecordPlaybooks(store)


def _has_playbooks(settings: Settings, store: Store) -> bool:
    if settings.skills == "neo4j":
        return True  # who looks finds out
    from refdesk.store.record.access import RecordAccess

    return isinstance(store, RecordAccess) and store.has_playbooks()


def _behind(store: Store) -> int:
    from refdesk.store.shared.store import SharedStore

    return store.behind() if isinstance(store, SharedStore) else 0


def _check_beside(library: Library, repair: bool) -> list[Finding]:
    from refdesk.store.doctor import check_beside

    return check_beside(library, repair=repair)


def _parser(root: Path | None, kind: CollectionKind) -> Parser:
    from refdesk.parse import AnyParser

    if root is None or kind != "docs":
        return AnyParser(is_source=kind == "code")
    from refdesk.parse.prose.manifest import load_manifests

    return AnyParser(manifests=load_manifests(root))


def _pool(parser: Parser, embedder: Embedder | None, workers: int) -> ParsePool:
    from refdesk.embed.static import StaticEmbedder
    from refdesk.parse.pool import Pool

    # The others wait for an endpoint or take long to load: they are asked in this process.
    return Pool(parser, embedder if isinstance(embedder, StaticEmbedder) else None, workers)


def _folder(root: Path, settings: Settings, skipped: Mapping[str, str], rules: str) -> Source:
    from importlib.util import find_spec

    from refdesk import __version__
    from refdesk.sources.walk import FolderSource

    # What decides whether a content can be read: this version, and the libraries that are installed now.
    found = (find_spec(name) for name in _READING)
    files = [Path(one.origin).stat() for one in found if one is not None and one.origin]
    readers = f"{__version__} {[(one.st_size, one.st_mtime_ns) for one in files]}"
    return FolderSource(
        root,
        max_file_bytes=settings.max_file_bytes,
        known_skipped=skipped,
        rules_fingerprint=rules,
        allow_secrets=settings.allow_secrets,
        readers=readers,
    )


def _watch(root: Path) -> Watching:
    from refdesk.sources.watch import Watch

    return Watch(root)


def _why(root: Path, relative: str, settings: Settings) -> Found | Skipped:
    from refdesk.sources.walk import why

    return why(root, relative, max_file_bytes=settings.max_file_bytes, allow_secrets=settings.allow_secrets)


def _load(uri: str, roots: Sequence[Path], settings: Settings) -> Iterator[Content | Skipped]:
    from refdesk.sources.walk import load

    return load(uri, roots, settings)


def _crawls(library: Library, store: Store) -> Path | Crawls:
    from refdesk.store.record.access import RecordAccess

    return (store.crawls if isinstance(store, RecordAccess) else None) or library.crawls


def _pending_pages(crawls: Path | Crawls, collection: Collection) -> int:
    from refdesk.crawl.state import pending_pages

    try:
        return pending_pages(crawls, collection.id)
    except RefdeskError:  # a crawl says so itself, and so does doctor; what is indexed can be searched all the same
        return 0


def _facts(root: Path, kind: CollectionKind) -> dict[str, str]:
    from refdesk.parse.parser import VERSION
    from refdesk.sources.git import head_commit

    facts = {"commit": head_commit(root), "parser": VERSION}
    if kind != "docs":
        return facts
    import hashlib
    import json

    from refdesk.parse.prose.manifest import load_manifests

    manifests = load_manifests(root)
    taxonomy = {key: {"description": description} for key, description in manifests.taxonomy.items()}
    return facts | {
        "taxonomy": json.dumps(taxonomy, sort_keys=True),
        "instructions": manifests.instructions,
        "manifests": hashlib.sha256(repr(manifests).encode()).hexdigest() if manifests.manifests else "",
    }


PARTS = Parts(
    store=_store,
    embedder=_embedder,
    playbooks=_playbooks,
    has_playbooks=_has_playbooks,
    check_beside=_check_beside,
    behind=_behind,
    parser=_parser,
    pool=_pool,
    folder=_folder,
    watch=_watch,
    load=_load,
    why=_why,
    crawls=_crawls,
    pending_pages=_pending_pages,
    facts=_facts,
)


def _elsewhere(order: Order, progress: Progress) -> Report:
    from refdesk.desk.elsewhere import index_elsewhere

    return index_elsewhere(order, progress)


def index_for_parent() -> None:
    """The whole of a process that `index_elsewhere` starts."""
    from refdesk.desk.elsewhere import answer_parent

    answer_parent(open_desk)


def _desk(settings: Settings, parts: Parts = PARTS) -> Desk:
    from refdesk.desk.desk import Desk

    return Desk(settings, parts)


class _Shared:
    """What toolsets share: the desk, the language models and the journal, each made when it is first needed.

    The list of tools needs none of them, and importing the desk takes 50 ms.
    """

    def __init__(self, settings: Settings) -> None:
        from refdesk.toolsets.contract import once

        self.settings = settings
        self.library = Library(settings.library)
        self.desk = once(self._open)
        self._opened: Desk | None = None

    def _open(self) -> Desk:
        self._opened = _desk(self.settings, replace(PARTS, elsewhere=_elsewhere))
        return self._opened

    @cached_property
    def models(self) -> Models:
        from refdesk.llm.thinkers import Models

        return Models(self.settings, lambda: self.desk().embedder)

    @cached_property
    def journal(self) -> Journal:
        from refdesk.console.journal import Journal

        return Journal(self.library, self.settings.journal)

    def close(self) -> None:
        if (pool := sys.modules.get("refdesk.parse.pool")) is not None:  # Python waits for who waits for a parser
            pool.CREW.end()
        if "journal" in self.__dict__:
            self.journal.flush()
        if "models" in self.__dict__:
            self.models.close()
        if self._opened is not None:
            self._opened.close()


def _toolset(name: ToolsetName, shared: _Shared) -> Toolset:
    match name:
        case "docs":
            from refdesk.toolsets.docs import docs_toolset

            return docs_toolset(shared.desk, shared.library)
        case "rag":
            from refdesk.toolsets.rag.toolset import rag_toolset

            return rag_toolset(shared.desk)
        case "skills":
            from refdesk.toolsets.skills import skills_toolset

            return skills_toolset(lambda: shared.desk().learner, lambda sampler: shared.models.thinker(sampler))
        case "pages":
            from refdesk.toolsets.pages import pages_toolset

            return pages_toolset(shared.desk)
        case "code":
            from refdesk.toolsets.code.toolset import code_toolset

            return code_toolset(shared.desk, lambda context: shared.models.choose(context.sampler))


def make_toolsets(settings: Settings, clients: Callable[[], Sequence[Mapping[str, str]]] = list) -> list[Toolset]:
    """The toolsets that the settings name, over one desk that closes with the last of them.

    The last has the console's site, which shows `clients`: what `install` would add to which of them.
    """
    memory.allow(settings.max_memory)
    shared = _Shared(settings)
    made = {name: _toolset(name, shared) for name in get_args(ToolsetName) if name in settings.toolsets}
    if "docs" in made and "code" in made:
        from refdesk.desk.corpus import has_corpus
        from refdesk.toolsets.contract import united

        made["docs"], made["code"] = united(made["docs"], made["code"], lambda: has_corpus(shared.desk()))
    *others, last = made.values()

    def site(key: bytes) -> Any:
        from refdesk.console.site import console_site

        return console_site(shared.desk(), key, clients)

    def close() -> None:
        if last.close is not None:
            last.close()
        shared.close()

    heard = (lambda *call: shared.journal.note(*call)) if settings.journal else None
    gauges = (lambda: {"refdesk_index_behind": shared.desk().index_behind()}) if settings.database else None
    return [*others, replace(last, close=close, heard=heard, site=site, gauges=gauges)]


@contextmanager
def open_desk(settings: Settings) -> Iterator[Desk]:
    """The library the settings name, closed at the end."""
    memory.allow(settings.max_memory)
    desk = _desk(settings)
    try:
        yield desk
    finally:
        desk.close()
