"""A shared library whose database was copied, and one whose servers name different nodes."""

from __future__ import annotations

from pathlib import Path

from refdesk.store.shared.state import note_nodes, see
from refdesk.store.shared.store import SharedStore
from tests.ports.library import batch, vector, write
from tests.scale import servers
from tests.scale.shared import texts_with, until


def _index(store: SharedStore) -> str:
    with store.reading() as db:
        state = see(db).state
    assert state is not None
    return state.name


def test_a_copied_database_leaves_the_index_to_the_other(address: str, store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha before"])))
    its_index = _index(store)
    copy = servers.for_tests()[0].copy_database(store.address.schema)
    copied = SharedStore(address.replace("/postgres?", f"/{copy}?"))
    assert texts_with(copied, "alpha") == ["alpha before"]
    copied.apply(batch(write("b", ["alpha in the copy"])))
    store.apply(batch(write("b", ["alpha in the first"])))
    assert texts_with(copied, "alpha") == ["alpha before", "alpha in the copy"]
    assert texts_with(store, "alpha") == ["alpha before", "alpha in the first"]
    assert _index(store) == its_index != _index(copied)
    for one in (store, copied):
        assert [each.ok for each in one.verify(True)] == [True, True]
        assert not one.view().notices
    assert its_index in copied.verify(False)[1].message and its_index not in store.verify(False)[1].message
    copied.apply(batch(write("c", ["alpha once more"])))
    until(lambda: copied._follower._thread is None)
    assert texts_with(store, "alpha") == ["alpha before", "alpha in the first"] and _index(store) == its_index
    copied.close()


def test_servers_that_name_other_nodes_do_not_make_the_index_in_turns(
    address: str, store: SharedStore, tmp_path: Path
) -> None:
    store.apply(batch(write("a", ["alpha"])))
    its_index = _index(store)
    nodes = store.address.nodes[0]
    with servers.qdrant_nodes(tmp_path, 1) as [node]:
        other = f"127.0.0.1:{node.port}"
        second = SharedStore(address.replace(nodes, other))
        for _ in range(3):
            assert len(second.view().lexical(["alpha"], 5)) == 1
            until(lambda: second._follower._thread is None)
        view = second.view()
        assert len(view.lexical(["alpha"], 5)) == 1 and not view.nearest(vector("alpha"), 5)
        assert f"the index is on {nodes}, and this server names other nodes" in view.notices[0]
        second.apply(batch(write("b", ["alpha beta"])))
        assert texts_with(store, "alpha") == ["alpha", "alpha beta"] and not store.view().notices
        assert _index(store) == its_index
        found = second.verify(False)[1]
        assert not found.ok and nodes in found.message and "doctor" in found.message

        found = second.verify(True)[1]  # who asks for it has moved the index
        assert found.ok and found.repaired
        assert len(second.view().nearest(vector("alpha"), 5)) == 2 and not second.view().notices
        store.view().lexical(["alpha"], 5)
        until(lambda: bool(store._follower.elsewhere))
        assert other in store.view().notices[0]
        assert len(second.view().nearest(vector("alpha"), 5)) == 2
        second.close()


def test_a_node_that_learns_of_the_index_late_is_not_called_another(store: SharedStore) -> None:
    store.apply(batch(write("a", ["alpha"])))
    its_index = _index(store)
    with store.writing(), store.transaction(logged=False) as db:
        note_nodes(db, ["elsewhere:6334"])
    store._follower.report_missing(its_index)
    until(lambda: bool(store._follower.elsewhere))
    assert store._follower.elsewhere == "elsewhere:6334"
    store.view()  # wakes who looks again
    until(lambda: not store._follower.elsewhere)
    assert len(store.view().nearest(vector("alpha"), 5)) == 1 and _index(store) == its_index
