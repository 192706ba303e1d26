"""A Kotlin project of several source sets, whose packages and extension functions are known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from refdesk.graph import Graph
from refdesk.graph.nodes import said
from refdesk.graph.relations import implementing
from refdesk.model import Chunking
from refdesk.parse.code.parser import parse_code
from tests.unit.graph.indexed import callers, graph_of

FILES = {
    "lib/src/commonMain/kotlin/kit/Text.kt": """package kit

internal fun failWith(code: Int): Nothing = throw IllegalStateException("$code")

fun String.toMillis(): Long = 1

fun Lookup?.orParent(): Lookup = this ?: Lookup()

open class Lookup

private fun String.hidden(): Long = 2

fun Lookup.toLong(): Long = 3
""",
    "lib/src/unixMain/kotlin/kit/Unix.kt": """package kit

fun close() { failWith(3) }

fun measure(it: Any) { it.hidden(); it.toLong() }
""",
    "lib/src/jvmTest/kotlin/kit/TextTest.kt": """package kit

class TextTest {
  fun measures() { check("2001".toMillis() == 1L) }
  fun climbs(found: Lookup?) { found.orParent() }
}
""",
    "app/src/main/kotlin/app/Main.kt": """package app

import kit.Lookup
import kit.toMillis

class Deep : Lookup()

fun main() { println("x".toMillis()) }
""",
    "app/src/main/kotlin/app/Other.kt": """package app

fun other(value: Any) { value.toMillis() }

fun failing() { failWith(2) }
""",
    "lib/src/commonMain/kotlin/kit/Builder.kt": """package kit

class Builder {
  fun add(text: String) {}
  fun nest(depth: Int, block: Row.() -> Unit) {}
}

class Row {
  fun add(text: String) {}
}

fun build(indent: Int = 2, block: Builder.() -> Unit): Builder = Builder().apply(block)

fun <T> anything(value: T, block: T.() -> Unit) {}

fun later(block: () -> Unit) {}
""",
    "app/src/main/kotlin/app/Page.kt": """package app

import kit.Builder
import kit.anything
import kit.build
import kit.later
import other.Foreign

fun plain() { build { add("x") } }

fun spread() {
  build(
    indent = max(1, 2),
  ) {
    // not the end: }
    println("nor this: } ${'{'}")
    listOf(1).forEach { add("$it") }
    later { add("y") }
  }
}

fun inner() {
  build {
    nest(1) { add("row") }
    add("after")
  }
}

fun applied(builder: Builder) {
  builder.apply { add("x") }
}

fun general(thing: Foreign) {
  build { anything(thing) { add("x") } }
}

fun foreign(thing: Foreign) {
  build { thing.apply { add("x") } }
}

fun handed(thing: Foreign) {
  build { with(thing) { add("x") } }
}

fun withDefaults() { val page = build { add("x") }; page.toString() }

fun outside() {
  build { }
  add("nowhere")
}

fun shadowing() {
  fun add(text: String) {}
  build { add("x") }
}

class Widget {
  fun add(text: String) {}
  fun draw() { build { add("x") } }
  fun outside() {
    build(2) { }
    add("mine")
  }
}
""",
    "lib/src/commonMain/kotlin/kit/Disk.kt": """package kit

expect class Disk {
  fun read(name: String): Int
}

internal expect fun sync(disk: Disk)

fun sync(times: Int) {}

fun boot(disk: Disk) {
  disk.read("kernel")
  sync(disk)
}
""",
    "lib/src/jvmMain/kotlin/kit/Disk.kt": """package kit

actual class Disk
internal actual constructor(private val path: String) {
  actual fun read(name: String): Int = jvmRead(name)
  fun toFile(): Any = path
}

internal actual fun sync(disk: Disk) { flushJvm() }

fun jvmRead(name: String) = 1

fun flushJvm() {}
""",
    "lib/src/nativeMain/kotlin/kit/Disk.kt": """package kit

actual class Disk internal actual constructor(private val path: String) {
  actual fun read(name: String): Int = 2
}

internal actual fun sync(disk: Disk) {}

fun restart(disk: Disk) { sync(disk) }
""",
    "lib/src/jvmMain/kotlin/other/Disk.kt": "package other\n\nactual class Disk\n",
    "java/src/main/java/kit/Door.java": """package kit;

class Door {
  static Door open() { return new Door(); }
}
""",
    "java/src/test/java/kit/DoorTest.java": """package kit;

class DoorTest {
  void opens() { Door.open(); new Door(); }
}
""",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with graph_of(tmp_path_factory.mktemp("kotlin"), FILES) as found:
        yield found


def test_a_package_is_seen_from_all_of_its_folders_and_no_others(graph: Graph) -> None:
    assert callers(graph, "failWith") == {"close"}
    assert callers(graph, "Door.open") == {"DoorTest.opens"}
    assert callers(graph, "Door") == {"Door.open", "DoorTest.opens"}


def test_an_extension_is_called_on_what_the_codebase_does_not_define_where_it_is_seen(graph: Graph) -> None:
    assert callers(graph, "toMillis") == {"TextTest.measures", "main"}
    assert callers(graph, "orParent") == {"TextTest.climbs"}
    assert callers(graph, "hidden") == set()
    assert callers(graph, "Lookup.toLong") == set()  # which every number has


def test_a_package_of_one_name_is_imported_from(graph: Graph) -> None:
    assert [edge.source.qualified for edge in graph.subtypes(graph.find("Lookup")[0])] == ["Deep"]


def test_what_is_expected_and_its_actuals_are_one_declaration_and_what_carries_it_out(graph: Graph) -> None:
    found = [(node.path, node.qualified) for node in graph.find("Disk")]
    assert found == [
        ("lib/src/commonMain/kotlin/kit/Disk.kt", "Disk"),
        ("lib/src/jvmMain/kotlin/other/Disk.kt", "Disk"),
    ]
    for name in ("Disk", "Disk.read", "sync"):
        edges = implementing(graph, graph.find(name)[0])
        assert {edge.source.path for edge in edges} == {
            "lib/src/jvmMain/kotlin/kit/Disk.kt",
            "lib/src/nativeMain/kotlin/kit/Disk.kt",
        }
        assert {(edge.kind, edge.source.qualified) for edge in edges} == {("implements", name)}
    assert implementing(graph, graph.find("boot")[0]) == []
    assert graph.find("Disk.toFile")[0].path == "lib/src/jvmMain/kotlin/kit/Disk.kt"


def test_a_call_means_what_is_expected_and_reaches_every_actual(graph: Graph) -> None:
    assert callers(graph, "Disk.read") == {"boot"}
    (boot,) = graph.find("boot")
    called = [edge.target for edge in graph.callees(boot)]
    assert [(one.qualified, one.path) for one in called if one.name == "read"] == [
        ("Disk.read", "lib/src/commonMain/kotlin/kit/Disk.kt")
    ]
    for edge in implementing(graph, graph.find("sync")[0]):
        assert {one.source.qualified for one in graph.callers(edge.source)} == {"boot", "restart"}


def test_a_lambda_sees_the_members_of_the_receiver_it_is_given(graph: Graph) -> None:
    assert callers(graph, "Builder.add") == {
        "plain",
        "spread",
        "inner",
        "applied",
        "Widget.draw",
        "withDefaults",
    }
    assert callers(graph, "Builder.nest") == {"inner"}
    assert callers(graph, "Row.add") == {"inner"}
    assert callers(graph, "Widget.add") == {"Widget.outside"}
    assert callers(graph, "shadowing.add") == {"shadowing"}


@pytest.mark.parametrize(
    ("code", "receiver"),
    [
        ("fun build(block: Builder.() -> Unit): Builder", "Builder"),
        ("suspend fun <T> run(n: Int = f(1, 2), block: suspend kit.Scope<T>.(Int) -> T)", "Scope"),
        ("fun build(setUp: (Builder.() -> Unit)? = null)", "Builder"),
        ("@Marked(a = 1) class Page(val init: Head.() -> Unit)", "Head"),
        ("fun each(map: Map<String, Int>, action: (Item) -> Unit)", None),
        ("fun both(first: Builder.() -> Unit, then: () -> Unit)", None),
        ("fun <T> T.also2(block: T.() -> Unit): T", "?"),
        ("fun nothing()", None),
        ("val x: Builder.() -> Unit", None),
    ],
)
def test_the_receiver_of_a_functions_last_argument(code: str, receiver: str | None) -> None:
    symbol = parse_code(code, "p.kt", "kotlin", Chunking()).symbols[0]
    assert said(symbol, "{") == receiver
