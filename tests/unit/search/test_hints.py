from refdesk.desk import Desk
from refdesk.model import Filters, Query
from refdesk.search.hints import nearest_words
from tests.conftest import Tree


def test_words_spelt_alike_are_named_as_they_stand_in_what_is_searched(desk: Desk, tree: Tree) -> None:
    desk.index(tree({"a.md": "# Pagination\n\nPass the cursor to read the next page.\n"}), "docs", name="docs")
    other = tree({"other/paginatoin.py": "paginatio = 1\ncursus = paginatoin\n"}) / "other"
    desk.index(other, "code", name="other")

    def near(text: str) -> list[str]:
        return nearest_words(desk.engine, desk.store, Query(text=text, filters=Filters(collections=("docs",))))

    assert near("paginatoin") == ["pagination"]
    assert near("curso") == ["cursor"]
    assert near("cursor") == []
