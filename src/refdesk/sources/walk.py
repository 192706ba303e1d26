"""Walks a folder: the files to index, and for everything else the reason why not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from refdesk.errors import InvalidUri, LoadFailed, ParseFailed
from refdesk.ingest.prepare import content_hash
from refdesk.model import Content, FileState, Found, Skipped
from refdesk.settings import Settings
from refdesk.sources.allowed import (
    LASTING,
    PRIVATE,
    Layers,
    allowed_roots,
    why_not_file,
    why_not_folder,
    why_not_stat,
    why_private,
)
from refdesk.sources.files import read_data_uri, read_file, read_inside, resolve_file_uri, why_binary, why_not_written
from refdesk.sources.ignore import CONTROL, Layer, outer_layer
from refdesk.system.files import listed_folder, opened_folder

# ── the state of all ignore files as one string, to see whether the rules changed ──

_FORMAT = 4  # increment it when the rules in allowed.py, files.py or ignore.py change
_TICK_NS = 100_000_000  # more than the resolution of file times: 10 ms or better on ext4, APFS and NTFS


@dataclass(slots=True)
class RuleState:
    """Everything that decides about a tree: settings, files outside it, ignore files, rejected contents by path."""

    settings: list[Any]
    folders: dict[str, list[Any]] = field(default_factory=dict)
    rejected: dict[str, list[Any]] = field(default_factory=dict)  # size, time and hash
    readers: str = ""  # which parsers rejected them

    @classmethod
    def parse(cls, fingerprint: str) -> RuleState:
        """Parses a fingerprint; an unreadable one gives an empty state."""
        try:
            found = json.loads(fingerprint) if fingerprint else {}
            return cls(list(found["settings"]), dict(found["folders"]), dict(found["rejected"]), found["readers"])
        except (ValueError, TypeError, KeyError):
            return cls([])

    def fingerprint(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def state_of(files: Iterable[Path]) -> list[Any]:
    """Each file with its time and size, zeros for a missing one."""
    states: list[Any] = []
    for file in files:
        try:
            found, now = file.stat(), time.time_ns()
        except (OSError, ValueError):
            states.append([str(file), 0, 0])
            continue
        # A file written just now may be written again within the clock's resolution, so its state never counts as
        # unchanged, and the next walk checks it again.
        is_fresh = abs(now - found.st_mtime_ns) < _TICK_NS
        states.append([str(file), now if is_fresh else found.st_mtime_ns, found.st_size])
    return states


_by_name = attrgetter("name")
_KIND, _REGULAR = 0o170000, 0o100000  # stat.S_ISREG without the call
_Frame = tuple[str, str, Layer, bool]  # absolute folder, its path with "/" at the end, its layer, rules unchanged


@dataclass(frozen=True, slots=True)
class _Named:
    """A file given by its name, with the interface of DirEntry."""

    folder: str
    name: str

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        return os.stat(f"{self.folder}/{self.name}", follow_symlinks=follow_symlinks)  # noqa: PTH116 - as DirEntry has it


class FolderSource:
    """The files of a folder; given the last walk's results, an unchanged tree costs little more than its stats."""

    def __init__(
        self,
        root: Path,
        *,
        max_file_bytes: int,
        known_skipped: Mapping[str, str] | None = None,
        rules_fingerprint: str = "",
        allow_secrets: Sequence[str] = (),
        readers: str = "",
    ) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 - already resolved; no link is followed now
        self._max = max_file_bytes
        self._allow_secrets = allow_secrets
        self._known: Mapping[str, FileState] = {}
        self._known_skipped = known_skipped or {}
        self._before = RuleState.parse(rules_fingerprint)
        self._readers = readers
        if self._before.readers != readers:  # other parsers may read what these could not
            self._before.rejected.clear()
        self._now = RuleState([])
        self._looked: frozenset[str] = frozenset()

    def walk(
        self, only: Iterable[str] | None = None, known: Mapping[str, FileState] | None = None
    ) -> Iterator[Found | Skipped]:
        """Yields the files, by name and before subfolders, and what is skipped; of the given files only, if any."""
        self._known = known or {}
        if only is not None:
            yield from self._look(sorted(only))
            return
        with ExitStack() as kept:
            try:
                top = kept.enter_context(opened_folder(self.root))
            except OSError as error:
                raise LoadFailed(f"{self.root} is not a folder: {error.strerror}.", "Check the path.") from error
            yield from self._walk(top)

    def _walk(self, top: int | None) -> Iterator[Found | Skipped]:
        layer, outside = outer_layer(self.root)
        settings = [_FORMAT, self._max, sorted(self._allow_secrets), layer.ignore_case, state_of(outside)]
        self._now = RuleState(settings, readers=self._readers)
        unchanged = self._before.settings == self._now.settings
        folders: set[str] = set()  # with a known file below them: while the rules are unchanged, none is ignored
        for path in self._known if unchanged else ():
            end = path.rfind("/") + 1
            while end and (folder := path[:end]) not in folders:
                folders.add(folder)
                end = path.rfind("/", 0, end - 1) + 1
        pending: list[_Frame] = [(self.root, "", layer, unchanged)]
        while pending:
            folder, prefix, layer, unchanged = pending.pop()
            with ExitStack() as kept:
                try:
                    entries = kept.enter_context(listed_folder(folder if top is None else prefix, at=top))
                except FileNotFoundError:
                    continue  # removed since its parent was listed
                except OSError as error:
                    yield Skipped(path=prefix or "./", reason=f"can't be listed: {error.strerror}")
                    continue
                entries.sort(key=_by_name)
                layer, unchanged = self._enter(folder, prefix, layer, unchanged, entries)
                below: list[_Frame] = []
                yield from self._list((folder, prefix, layer, unchanged), entries, folders, below)
            pending += reversed(below)

    def _look(self, paths: Sequence[str]) -> Iterator[Found | Skipped]:
        """The same results for single files, without a walk."""
        layers = Layers(self.root)
        self._looked = frozenset(paths)
        self._now = RuleState([], readers=self._readers)
        for path in paths:
            folder, _, name = path.rpartition("/")
            layer, reason = layers.of(folder)
            if not reason:
                here = f"{layers.root}/{folder}" if folder else layers.root
                decided = self._decide((here, path.removesuffix(name), layer, False), _Named(here, name), path)
                if decided is not None:
                    yield decided

    def read(self, found: Found) -> Content:
        """The bytes of a found file; raises LoadFailed if it changed, ParseFailed if it is not text."""
        content = read_inside(self.root, found, self._max)
        reason = why_private(f"{self.root}/{found.path}", content.data, self._allow_secrets)
        reason = reason or why_binary(found.path, content.data) or why_not_written(found.path, content.data)
        before = self._before.rejected.get(found.path)
        if not reason and before is not None and before[2] == content_hash(content):
            reason = self._why_rejected(found.path)
        if reason:
            self.reject(found, content)
            raise ParseFailed(reason)
        return content

    def reject(self, found: Found, content: Content) -> None:
        """Records in the fingerprint that this content can't be indexed, until it or its parser changes."""
        self._now.rejected[found.path] = [found.size, found.modified_ns, content_hash(content), found.stamp]

    def fingerprint(self, *, only_rejected: bool = False) -> str:
        """The state of rules and rejected files after a walk, to be given to the next source of this folder.

        With `only_rejected`, the rules are those of the last full walk.
        """
        if not only_rejected:
            return self._now.fingerprint()
        others = {path: why for path, why in self._before.rejected.items() if path not in self._looked}
        return replace(self._before, rejected=others | self._now.rejected, readers=self._readers).fingerprint()

    def _enter(
        self, folder: str, prefix: str, layer: Layer, unchanged: bool, entries: list[os.DirEntry[str]]
    ) -> tuple[Layer, bool]:
        """The folder's layer, and whether its rules and those above it are unchanged."""
        present = [entry.name for entry in entries if entry.name in CONTROL]
        if not present:
            return layer, unchanged and prefix not in self._before.folders
        layer, added = layer.below(folder.rstrip("/"), prefix, present)
        state = [layer.ignore_case, state_of(added)]
        self._now.folders[prefix] = state
        return layer, unchanged and self._before.folders.get(prefix) == state

    def _list(
        self, frame: _Frame, entries: list[os.DirEntry[str]], folders: set[str], below: list[_Frame]
    ) -> Iterator[Found | Skipped]:
        """One folder's files and skipped folders; the folders to enter are appended to `below`."""
        folder, prefix, layer, unchanged = frame
        known = self._known if unchanged else {}
        for entry in entries:
            path = prefix + entry.name
            if path in known:
                try:
                    state = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # removed since the folder was listed
                if state.st_mode & _KIND == _REGULAR and state.st_size <= self._max:
                    yield Found.of(path, state)
                    continue
            if not entry.is_dir(follow_symlinks=False):
                if (decided := self._decide(frame, entry, path)) is not None:
                    yield decided
                continue
            path += "/"
            if unchanged and path in folders:
                reason = ""
            elif not unchanged or not (reason := self._known_skipped.get(path, "")).startswith(LASTING):
                reason = why_not_folder(folder.rstrip("/"), entry.name, layer, (one.name for one in entries))
            if reason:
                yield Skipped(path=_printable(path), reason=reason)
            else:
                below.append((f"{folder.rstrip('/')}/{entry.name}", path, layer, unchanged))

    def _decide(self, frame: _Frame, entry: os.DirEntry[str] | _Named, path: str) -> Found | Skipped | None:
        """The decision about a new or changed file; None if it is gone."""
        folder, _, layer, unchanged = frame
        before = self._known_skipped.get(path, "")
        if unchanged and before.startswith(LASTING):
            return Skipped(path=path, reason=before)
        if reason := why_not_file(folder.rstrip("/"), entry.name, layer, self._allow_secrets):
            if entry.name in CONTROL and (unread := layer.unread(entry.name)):
                reason = unread
            return Skipped(path=_printable(path), reason=reason)
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            return Skipped(path=path, reason=f"can't be read: {error.strerror}")
        if reason := why_not_stat(self.root, f"{folder}/{entry.name}", state, self._max):
            return Skipped(path=path, reason=reason)
        # Its content was read before, whatever the rules are now.
        kept = self._before.rejected.get(path, ())
        found = Found.of(path, state)
        same = kept[:2] == [found.size, found.modified_ns] and kept[3:] in ([], [found.stamp])
        if same and (reason := self._why_rejected(path)):
            self._now.rejected[path] = self._before.rejected[path]
            return Skipped(path=path, reason=reason)
        return found

    def _why_rejected(self, path: str) -> str:
        """Why an unchanged rejected file is skipped again; "" if it must be read."""
        reason = self._known_skipped.get(path, "")
        return "" if reason.startswith(PRIVATE) and self._allow_secrets else reason


def _printable(path: str) -> str:
    """The path with bytes that are not UTF-8 written as \\xNN, so that it can be stored and shown."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def why(root: Path, path: str, *, max_file_bytes: int, allow_secrets: Sequence[str] = ()) -> Found | Skipped:
    """The result of a walk and a read for one path, with the rule that decides."""
    top = Path(os.path.realpath(root))
    parts = Path(os.path.relpath(top / path, top)).parts
    if not parts or parts[0] == "..":
        return Skipped(path=path, reason="not inside the root")
    layers, wanted = Layers(str(top)), "/".join(parts)
    for depth in range(1, len(parts) + 1):
        here, shown = top.joinpath(*parts[:depth]), "/".join(parts[:depth])
        if not os.path.lexists(here):
            return Skipped(path=wanted, reason=f"{shown} does not exist")
        if here.is_symlink() or not here.is_dir():
            source = FolderSource(top, max_file_bytes=max_file_bytes, allow_secrets=allow_secrets)
            try:
                found = next(source.walk([shown]), Skipped(path=wanted, reason=f"{shown} does not exist"))
                if isinstance(found, Found):
                    source.read(found)
            except (LoadFailed, ParseFailed) as error:
                return Skipped(path=shown, reason=error.message)
            return found
        if reason := layers.of(shown)[1]:
            return Skipped(path=wanted, reason=reason if shown == wanted else f"in {shown}/: {reason}")
    return Found(path=f"{wanted}/", size=0, modified_ns=here.stat().st_mtime_ns)


# ── what a URI names ──


def load(uri: str, roots: Sequence[Path], settings: Settings) -> Iterator[Content | Skipped]:
    """The contents of a data:, https: or file: URI, those of a folder one by one."""
    scheme = uri.partition(":")[0].lower()
    if scheme == "data":
        yield read_data_uri(uri, settings.max_fetch_bytes)
    elif scheme in ("http", "https"):
        from refdesk.sources.web import fetch  # imports httpcore

        most, seconds = settings.max_fetch_bytes, settings.fetch_timeout_s
        got = fetch(uri, allow_hosts=settings.allow_hosts, max_bytes=most, timeout_s=seconds)
        path = got.url.partition("://")[2].partition("?")[0]
        yield Content(uri=uri, path=path, data=got.data, charset=got.charset, content_type=got.content_type)
    elif scheme == "file":
        secrets, most = settings.allow_secrets, settings.max_file_bytes
        named = resolve_file_uri(uri, allowed_roots(roots, settings.allow_roots), secrets)
        if named.is_dir():
            yield from _contents(FolderSource(named, max_file_bytes=most, allow_secrets=secrets))
        else:
            yield read_file(named, max_bytes=most, allow_secrets=secrets)
    else:
        raise InvalidUri(f"Cannot use the URI {uri.partition('?')[0][:80]!r}.", "Use file://, https:// or data:.")


def _contents(source: FolderSource) -> Iterator[Content | Skipped]:
    for one in source.walk():
        if isinstance(one, Skipped):
            yield one
            continue
        try:
            yield source.read(one)
        except (LoadFailed, ParseFailed) as error:
            yield Skipped(path=one.path, reason=error.message)
