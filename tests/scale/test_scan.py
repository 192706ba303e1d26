"""Words that are searched in Postgres while no node of the index answers are those that a folder finds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from refdesk.store.local import LocalStore
from refdesk.store.shared.database import TooSlow
from refdesk.store.shared.scan import SharedScan
from refdesk.store.shared.store import SharedStore
from refdesk.store.words.scan import Scan
from refdesk.text.analyse import terms
from tests.ports.library import IDENTITY, batch, collection, write

TEXTS = [
    "plain text in ASCII, with HTTPServer and a_name",
    "Über die Brücke", "uber alles", "ÜBER", "U\u0308ber mit Zeichen darüber",
    "Привет Мир", "привет", "ПРИВЕТ_МИР", "Самолёт и Йод", "самолет",
    "ΑΘΗΝΑΣ city", "Αθήνας", "αθηνας", "ΟΔΟΣ'Α", "οδός", "ΣΑΣ_ΧΑΣ",
    "Straße", "STRASSE", "GROẞE STRAẞE", "weiß",
    "Cafe\u0301", "CAFÉ", "cafe",
    "検索エンジン",
    "ｶﾞｲﾄﾞ", "ガイド", "ガイ\u30c8\u3099", "全角ＡＢＣ", "中文文檔", "한국어 문서", "\u1112\u1161\u11ab국어",
    "ﬁle oﬃce™ №5 ½", "İstanbul ıstanbul", "ภาษาไทย น้ำ", "हिन्दी भाषा", "بِسْمِ اللّٰه", "שָׁלוֹם", "𝐁𝐨𝐥𝐝",
    "“quoted” — it’s… an ‘English’ text", "naïve façade coöperate", "Ελλάδα και Кипр",
]  # fmt: skip
QUERIES = [
    *TEXTS, "über", "Uber", "brücke", "МИР", "самолет", "йод", "αθηνα", "ΟΔΌΣ", "οδος", "σασ", "straße", "strasse",
    "große", "café", "検索", "ガイド", "abc", "한국", "文", "file", "office", "tm", "istanbul", "น้ำ", "भाषा", "بسم",
    "שלום", "bold", "english", "naive", "cooperate", "ελλαδα", "кипр", "HTTPServer", "a_name", "приветмир", "absent",
]  # fmt: skip


def test_every_alphabet_is_searched_as_in_a_folder(store: SharedStore, tmp_path: Path) -> None:
    folder = LocalStore(tmp_path / "library")
    folder.put_collection(collection())
    folder.set_embedder_identity(IDENTITY)
    for one in (folder, store):
        one.apply(batch(write("texts", TEXTS)))
    seen = store.view()
    ours, theirs = SharedScan(store._postgres, seen._scope, seen._began + 600), Scan(folder, folder.view()._scope)
    for query in QUERIES:
        wanted = terms(query)
        assert ours.document_frequency(wanted) == theirs.document_frequency(wanted), query
        found = [
            [one.chunk.text for one in each.chunks(list(ranking.ids)).values()]
            for each, ranking in ((store, ours.lexical(wanted, 50)), (folder, theirs.lexical(wanted, 50)))
        ]
        assert sorted(found[0]) == sorted(found[1]), query
        indexed = store.chunks(list(seen.lexical(wanted, 50).ids)).values()
        assert sorted(one.chunk.text for one in indexed) == sorted(found[0]), query
    signs = ["—", "it’s", "a-b", "]", "^", "\\", "[a"]  # which no text is searched for, but any caller may give
    assert ours.document_frequency(signs) == theirs.document_frequency(signs)
    folder.close()


def test_pages_of_rows_have_one_time_limit_together(store: SharedStore) -> None:
    rows = "SELECT number, pg_sleep(.05) FROM generate_series(1, 60) AS number"
    with store._postgres.snapshot(30) as db:
        whole = db.pages(rows, (), 25, time.monotonic() + 30)
        assert [len(page) for page in whole] == [25, 25, 10]
    with pytest.raises(TooSlow), store._postgres.snapshot(30) as db:
        list(db.pages(rows, (), 1, time.monotonic() + 1))
