"""What is asked, what is followed, and how it is told within a budget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.graph import Graph
from refdesk.model import Filters, Hit
from refdesk.research import Answer, Focus, research
from refdesk.research.question import content_of, named_in, read_question
from refdesk.research.render import as_json
from refdesk.search.engine import Engine
from refdesk.settings import Settings
from refdesk.text import tokens
from refdesk.toolsets.code.answers import links
from refdesk.toolsets.contract import DirectContext

FILES = {
    "app/main.py": "from app.shop import Shop\n\n\ndef main():\n    Shop().open()\n",
    "app/shop.py": "from app.till import Till\n\n\nclass Shop:\n    def open(self):\n        self.till = Till()\n"
    "        self.till.ring()\n",
    "app/till.py": "class Till:\n    def ring(self):\n        return make_noise()\n\n\n"
    "def make_noise():\n    return 1\n",
    "app/bells.py": "from app.till import Till\n\n\n"
    + "\n\n".join(f"class Bell{number}(Till):\n    def ring(self):\n        return {number}\n" for number in range(90)),
    "tests/test_shop.py": "from app.shop import Shop\n\n\ndef test_open():\n    Shop().open()\n",
}
Asked = tuple[Graph, Engine]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    root = tmp_path_factory.mktemp("research")
    for name, text in FILES.items():
        (root / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "code" / name).write_text(text)
    with open_desk(Settings(library=root / "library", embedder="none", workers=1)) as desk:
        desk.index(root / "code", "code", name="code")
        yield desk.graph("code"), desk.engine


OUTSIDE = {
    "app/models.py": "import os.path\n\nfrom pydantic import BaseModel\n\n\nclass Item(BaseModel):\n"
    "    def place(self):\n        return os.path.join('a', 'b')\n\n"
    "    def joined(self):\n        return ','.join(['a'])\n",
    "app/special.py": "from app.models import Item\n\n\nclass Special(Item):\n    pass\n",
    "app/sales/order.py": "def total():\n    return 1\n",
    "app/stock/order.py": "def total():\n    return 2\n\n\ndef check():\n    return total()\n",
    "deploy/defaults.yml": "image: app\nkeep_days: 3\n",
    "deploy/job.conf.j2": "[job]\nname = night\n\nkeep = {{ keep_days }}\n",
    "src/pane.h": "struct pane_resize {\n  int sx;\n};\n",
    "src/pane.c": "void pane_resize(int sx) {\n}\n\nvoid fix() {\n  pane_resize(1);\n}\n",
    "lib/talk.ex": "defmodule Talk do\n  def say!(a), do: a\n  def say(a), do: a\n  def hear(a), do: say!(a)\nend\n",
}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    root = tmp_path_factory.mktemp("outside")
    for name, text in OUTSIDE.items():
        (root / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "code" / name).write_text(text)
    with open_desk(Settings(library=root / "library", embedder="none", workers=1)) as desk:
        desk.index(root / "code", "code", name="code")
        yield desk.graph("code"), desk.engine


@pytest.mark.parametrize(
    ("text", "reached", "said"),
    [
        (
            "subclasses of BaseModel",
            ["Item", "Special"],
            "BaseModel (defined elsewhere) is implemented by 1 conforming",
        ),
        ("what calls os.path.join", ["Item.place"], "os.path.join (defined elsewhere) is called from 1 caller"),
        ("what calls app.stock.order.total", ["total", "check"], "total [app/stock/order.py:1-2] is called from 1"),
        ("what calls say!", ["Talk.say!", "Talk.hear"], "Talk.say! [lib/talk.ex:2-2] is called from 1 caller"),
        (
            "what uses keep_days",
            ["deploy/defaults.yml", "deploy/job.conf.j2"],
            "No definition or call of keep_days is known, but these files mention it: deploy/",
        ),
        ("what calls pane_resize", ["pane_resize", "pane_resize", "fix"], "pane_resize [src/pane.c:1-2] is called"),
        ("what calls send_reminders", [], "Nothing in the index defines, calls or mentions send_reminders"),
    ],
)
def test_names_that_are_defined_elsewhere_or_written_in_full(
    outside: Asked, text: str, reached: list[str], said: str
) -> None:
    body = as_json(ask(outside, text), 4_000)
    assert [one["symbol"] for one in body["findings"]] == reached
    assert body["summary"].startswith(said)


def test_a_mention_has_its_line(outside: Asked) -> None:
    found = as_json(ask(outside, "where is keep_days used"), 4_000)["findings"]
    assert {one["path"]: one["line"] for one in found} == {"deploy/defaults.yml": 2, "deploy/job.conf.j2": 4}


def ask(asked: Asked, text: str, depth: int = 2, focus: Focus | None = None, hops: list[int] | None = None) -> Answer:
    seen = [] if hops is None else hops
    graph, engine = asked
    return research(
        text,
        graph,
        engine,
        Filters(collections=("code",)),
        depth=depth,
        focus=focus,
        on_hop=lambda hop, depth, what: seen.append(hop),
    )


@pytest.mark.parametrize(
    ("text", "intent", "name"),
    [
        ("what calls authenticate()", "callers", "authenticate"),
        ("Who calls `Foo.run`?", "callers", "Foo.run"),
        ("call sites of parse", "callers", "parse"),
        ("who uses GlobSet", "users", "GlobSet"),
        ("where is Config used", "users", "Config"),
        ("usages of Config", "users", "Config"),
        ("all implementations of Storage", "implementations", "Storage"),
        ("which types conform to Storage", "implementations", "Storage"),
        ("what does main call", "callees", "main"),
        (r"implementations of App\Contracts\Storage", "implementations", r"App\Contracts\Storage"),
        ("what calls Repo.insert!/2", "callers", "Repo.insert!"),
        ("where is valid? called", "callers", "valid?"),
        ("what calls Client:request", "callers", "Client:request"),
        ("how does login work", "general", ""),
    ],
)
def test_questions(text: str, intent: str, name: str) -> None:
    question = read_question(text)
    assert (question.intent, question.name) == (intent, name)


def test_names_in_a_question() -> None:
    assert named_in("how does SplitArguments use split_args and `main`, and why?") == [
        "SplitArguments",
        "split_args",
        "main",
    ]


def test_every_hop_is_reported(asked: Asked) -> None:
    hops: list[int] = []
    ask(asked, "what calls Till.ring", 3, hops=hops)
    assert hops == [0, 1, 2, 3]


def test_all_implementations_are_counted_and_tests_come_last(asked: Asked) -> None:
    body = as_json(ask(asked, "all implementations of Till", 1), 2_000)
    assert "90 conforming types" in body["summary"]
    assert tokens.count(str(body)) < 2_600
    assert "are told in the tree alone" in body["left_out"]
    assert sum("Bell" in line for line in body["sections"]["conforming types"]) == 90
    assert "are left out" in as_json(ask(asked, "all implementations of Till", 1), 700)["left_out"]
    callers = ask(asked, "what calls Shop.open").sections["callers"]
    assert [line.split()[0] for line in callers] == ["Shop.open", "main", "test_open"]


def test_the_graph_and_the_drawing_name_the_findings(asked: Asked) -> None:
    body = as_json(ask(asked, "draw what calls make_noise", 3), 8_000)
    named = {one["id"]: one["symbol"] for one in body["findings"]}
    edges = [(named[edge["from"]], edge["kind"], named[edge["to"]]) for edge in body["graph"]["edges"]]
    assert ("Till.ring", "calls", "make_noise") in edges
    assert all(0.5 <= edge["confidence"] <= 1 for edge in body["graph"]["edges"])
    first = body["graph"]["edges"][0]
    assert f"{first['from']} -->|calls| {first['to']}" in body["mermaid"]
    assert "mermaid" not in as_json(ask(asked, "what calls make_noise", 3), 8_000)


def test_a_fact_is_told_once(asked: Asked) -> None:
    body = as_json(ask(asked, "what calls make_noise"), 8_000)
    assert not {"graph", "mermaid", "sections", "focus"} & set(body)
    assert str(body).count("Shop.open") == 1
    assert [(one["symbol"], one["relationship"], one["hop"]) for one in body["findings"]][1:] == [
        ("Till.ring", "calls make_noise", 1),
        ("Shop.open", "calls Till.ring", 2),
    ]


def test_callers_of_callers_are_told_as_a_tree_where_they_are_many(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    near = "".join(f"def near{n}():\n    return ring()\n\n\n" for n in range(3))
    (code / "near.py").write_text(f"def ring():\n    return 1\n\n\n{near}")
    for number in range(12):
        called = f"from near import near{number % 3}\n\n\ndef far_away_from_it_{number}():\n    near{number % 3}()\n"
        (code / f"far_{number}.py").write_text(called)
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.index(code, "code", name="code")
        body = as_json(ask((desk.graph("code"), desk.engine), "what calls ring"), 4_000)
    assert tokens.count(json.dumps(body)) <= 800
    assert body["summary"] == "ring [near.py:1-2] is called from 3 callers. Behind these, 12 more within 2 hops."
    assert [one["symbol"] for one in body["findings"]] == ["ring", "near0", "near1", "near2"]
    assert sum("far_away_from_it_" in line for line in body["sections"]["callers"]) == 12


def test_relations_that_no_finding_tells_are_a_graph(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text(
        "def bell(): ...\n\n\ndef one():\n    bell()\n\n\ndef two():\n    bell()\n    one()\n"
    )
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.index(tmp_path / "code", "code", name="code")
        body = as_json(ask((desk.graph("code"), desk.engine), "what calls bell"), 4_000)
    named = {one["id"]: one["symbol"] for one in body["findings"]}
    assert [(named[e["from"]], named[e["to"]], e["line"]) for e in body["graph"]["edges"]] == [("two", "one", 10)]


def test_flow_is_told_from_entry_to_effect(asked: Asked) -> None:
    chains = ask(asked, "how does Shop.open ring", 3, "flow").sections["call chains"]
    assert chains[0].startswith("main → Shop")
    assert any("make_noise [app/till.py:3]" in chain for chain in chains)


@pytest.mark.parametrize(
    "question",
    ["how does main reach make_noise", "path of calls from main() to Till.ring", "How does a Main call make_noise?"],
)
def test_the_way_from_one_symbol_to_another(asked: Asked, question: str) -> None:
    answer = ask(asked, question)
    (chain,) = as_json(answer, 4000)["sections"]["call chains"]
    assert chain.startswith("main → Shop.open [app/main.py:5] → Till.ring [app/shop.py:7]")
    assert [one.hop for one in answer.findings.values()] == list(range(len(answer.findings)))
    assert f"reaches {list(answer.findings.values())[-1].node.qualified} [" in as_json(answer, 4000)["summary"]


def test_without_a_way_what_is_around_both_is_told(asked: Asked) -> None:
    answer = ask(asked, "how does make_noise reach Shop.open")
    assert answer.intent == "general"
    assert {"make_noise", "Shop.open"} <= {one.node.qualified for one in answer.findings.values() if one.hop == 0}
    assert any("No way" in note for note in answer.notes)
    assert not ask(asked, "how does the noise reach the ear").notes


def test_dependencies_are_files(asked: Asked) -> None:
    answer = ask(asked, "the shop and its till", 2, "dependencies")
    assert {one.node.kind for one in answer.findings.values()} == {"file"}
    assert any(line.startswith("app/shop.py → app/till.py") for line in answer.sections["imports"])


def test_architecture_without_a_match_starts_from_entry_files(asked: Asked) -> None:
    answer = ask(asked, "zzqqx", 1, "architecture")
    assert "app/main.py" in answer.findings
    assert answer.sections["codebase"][0].startswith("app: 4 files")


def test_architecture_with_one_match_starts_from_entry_files_too(asked: Asked) -> None:
    answer = ask(asked, "make_noise", 1, "architecture")
    assert next(iter(answer.findings.values())).node.name == "main.py"
    assert "make_noise" in {one.node.name for one in answer.findings.values()}


def test_what_is_called_is_counted(asked: Asked) -> None:
    body = as_json(ask(asked, "what does Till.ring call", 1), 8_000)
    assert body["summary"] == "Till.ring [app/till.py:2-3] calls 1 definition."
    assert (body["findings"][1]["symbol"], body["findings"][1]["line"]) == ("make_noise", 3)


def test_angle_brackets_are_no_markup_in_a_drawing() -> None:
    from refdesk.graph import Edge, Node
    from refdesk.research.render import mermaid

    ends = [Node("a.rs", name, "impl", 1, 2) for name in ("Draw<T>", 'say("hi")')]
    drawn = mermaid([Edge(ends[0], ends[1], "calls", 1, 1.0)], {"a.rs:Draw<T>": "n0", 'a.rs:say("hi")': "n1"})
    assert drawn.split("\n")[1:3] == ['  n0["Draw#lt;T#gt;"]', '  n1["say  hi  "]']


def test_links_only_where_they_are_asked_for(asked: Asked) -> None:
    from refdesk.model import Query

    hits: tuple[Hit, ...] = asked[1].search(Query(text="make_noise ring", limit=3)).hits
    context = DirectContext()
    assert links("/repo", hits, context) == ()
    context.meta = {"refdesk/links": True}
    found = links("/repo", hits, context)
    assert len({one.uri for one in found}) == len(found)
    assert found[0].uri.startswith(Path("/repo/app").as_uri())
    assert found[0].mime_type == "text/x-python"
    assert found[0].description is not None
    assert found[0].description.startswith("lines ")
    assert found[0].annotations is not None
    assert found[0].annotations.audience == ("user", "assistant")


def test_sentences_say_who_does_what_to_whom(asked: Asked) -> None:
    said = as_json(ask(asked, "how does `Till.ring` work", 1), 8_000)["summary"]
    assert "Till.ring calls make_noise [app/till.py:" in said
    assert "Till.ring is called by Shop.open [app/shop.py:" in said
    files = as_json(ask(asked, "the shop and its till", 1, "dependencies"), 8_000)["summary"]
    assert "app/shop.py is imported by tests/test_shop.py." in files


@pytest.mark.parametrize("name", ["makeNoise", "MakeNoise", "make_Noise"])
def test_a_name_is_found_in_another_spelling_and_that_is_said(asked: Asked, name: str) -> None:
    answer = ask(asked, f"what calls {name}", 1)
    assert answer.intent == "callers"
    assert answer.notes == [f"{name} is read as make_noise."]
    assert [one.node.qualified for one in answer.findings.values()] == ["make_noise", "Till.ring"]


@pytest.mark.parametrize(
    ("name", "said", "found"),
    [
        ("Special.place", ["Special.place is read as Item.place."], "Item.place"),
        ("Special.Place", ["Special.Place is read as Item.place."], "Item.place"),
        ("Item.total", [], "total"),  # another file's is offered, not taken
        ("Special.joind", [], "Item.joined"),
    ],
)
def test_a_member_of_a_type_is_its_own_or_inherited(outside: Asked, name: str, said: list[str], found: str) -> None:
    answer = ask(outside, f"what calls {name}", 1)
    assert answer.notes == said
    assert next(iter(answer.findings.values())).node.qualified == found
    summary = as_json(answer, 8_000)["summary"]
    assert summary.startswith(f"There is no {name} here. Did you mean {found}") is not bool(said)
    assert ("or Item [" in summary) is (name == "Item.total")


def test_callers_are_counted_for_each_definition_of_the_name(asked: Asked) -> None:
    said = as_json(ask(asked, "what calls ring", 1), 8_000)["summary"]
    assert said.startswith("Till.ring [app/till.py:2-3] is called from 1 caller.")


def test_nothing_is_promised_where_nothing_is_shown(outside: Asked) -> None:
    body = as_json(ask(outside, "what calls Item.joined", 1), 8_000)
    assert body["summary"] == "Item.joined [app/models.py:10-11] has no caller in the index."
    assert body.get("notes") is None


def test_calls_of_what_a_method_overrides_are_told_beside_its_own(asked: Asked) -> None:
    body = as_json(ask(asked, "what calls Bell3.ring", 1), 8_000)
    assert body["summary"].startswith("Till.ring [app/till.py:2-3] is called from 1 caller.")
    assert body["notes"] == ["Bell3.ring implements Till.ring: a call of that may reach it."]
    assert {one["symbol"] for one in body["findings"]} == {"Bell3.ring", "Till.ring", "Shop.open"}
    assert as_json(ask(asked, "what calls Shop.open", 1), 8_000).get("notes") is None


def test_a_flow_goes_on_in_what_carries_an_interface_out(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "shape.ts").write_text("export interface Shape { area(): number }\n")
    (code / "round.ts").write_text(
        "import { Shape } from './shape';\nexport class Round implements Shape {\n"
        "  area(): number { return square(2); }\n}\nfunction square(n: number) { return n * n; }\n"
    )
    (code / "main.ts").write_text(
        "import { Shape } from './shape';\nexport function measure(shape: Shape) { return shape.area(); }\n"
    )
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.index(code, "code", name="code")
        answer = ask((desk.graph("code"), desk.engine), "how does `measure` work", 3, "flow")
    assert answer.sections["call chains"] == [
        "measure → Shape.area [main.ts:2] → Round.area [round.ts:3] → square [:3]",
    ]


def test_a_question_leads_to_the_function_whose_later_part_answers_it(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    lines = "".join(f"    ledger_{n} = read_account(number_{n}, 'the books of year {n}')\n" for n in range(80))
    (code / "till.py").write_text(f"def close_day():\n{lines}    send_receipts_to_the_printer(queue)\n")
    (code / "bell.py").write_text("def ring():\n    return 1\n")
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.index(code, "code", name="code")
        answer = ask((desk.graph("code"), desk.engine), "where do receipts go to the printer queue")
    assert [one.node.qualified for one in answer.findings.values() if one.hop == 0] == ["close_day"]


def test_embedding_is_told_apart_from_conforming(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.go").write_text(
        "package a\n\ntype Shutter interface {\n\tShut()\n}\n\ntype Box struct{}\n\nfunc (b Box) Shut() {}\n\n"
        "type Crate struct{ Box }\n\ntype logged struct{ Shutter }\n"
    )
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.index(tmp_path / "code", "code", name="code")
        asked = desk.graph("code"), desk.engine
        answer = ask(asked, "all implementations of Box")
        box = as_json(answer, 8_000)
        assert box["summary"] == "Box [a.go:7-7] is embedded in 1 type."
        assert answer.sections == {"embedding types": ["Box (a.go:7)", "  Crate (:11), by embedding"]}
        assert [one["relationship"] for one in box["findings"]] == ["match", "embeds Box"]
        shutter = as_json(ask(asked, "all implementations of Shutter", 1), 8_000)
        assert "Shutter [a.go:3-5] is implemented by 1 conforming type." in shutter["summary"]
        assert "Shutter [a.go:3-5] is embedded in 1 type." in shutter["summary"]
        patterns = as_json(ask(asked, "all implementations of Box", focus="patterns"), 8_000)["sections"]
        assert patterns["embedded in"] == ["Box: Crate (a.go:11)"]
        assert "implementations" not in patterns


def test_what_is_declared_for_all_platforms_leads_to_what_each_does(tmp_path: Path) -> None:
    files = {
        "common.kt": "package kit\n\nexpect fun sync(times: Int)\n\nfun boot() {\n  sync(1)\n}\n",
        "jvm.kt": "package kit\n\nactual fun sync(times: Int) {\n  flush()\n}\n\nfun flush() {}\n",
    }
    (tmp_path / "code").mkdir()
    for name, text in files.items():
        (tmp_path / "code" / name).write_text(text)
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.index(tmp_path / "code", "code", name="code")
        asked = desk.graph("code"), desk.engine
        answer = ask(asked, "implementations of sync")
        found = as_json(answer, 8_000)
        assert answer.sections == {"actual declarations": ["sync (common.kt:3)", "  sync (jvm.kt:3), actual"]}
        assert found["summary"] == "sync [common.kt:3-3] is carried out by 1 actual declaration."
        flow = ask(asked, "what does boot call", 3).sections["call chains"]
        assert flow == ["boot → sync [common.kt:6] → sync [jvm.kt:3] → flush [:4]"]


def test_all_that_is_called_at_once_is_told_as_chains(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    names = ["load", "check", "store"]
    (tmp_path / "code" / "a.py").write_text(
        "def run():\n" + "".join(f"    {name}()\n" for name in names) + "".join(f"\n\ndef {n}(): ...\n" for n in names)
    )
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.index(tmp_path / "code", "code", name="code")
        sections = ask((desk.graph("code"), desk.engine), "what does run call", 1).sections
        chains = [f"run → {name} [a.py:{line}]" for line, name in enumerate(names, 2)]
        assert sections == {"call chains": chains}


def test_a_file_that_one_other_needs_is_no_hub(asked: Asked) -> None:
    sections = as_json(ask(asked, "how does Shop open", focus="dependencies"), 8_000)["sections"]
    assert sections["fan-in"] == ["app/shop.py: 2", "app/till.py: 2"]
    assert "fan-out" not in sections


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("how does a request get sent", "a request send"),
        ("How do errors get handled?", "errors handled"),
        ("how do I get the current user", "get the current user"),
        ("where is the port set", "the port set"),
        ("how?", "how?"),
    ],
)
def test_the_words_of_asking_are_not_searched(text: str, content: str) -> None:
    assert content_of(text) == content


def test_an_english_word_is_no_symbol(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    getters = "".join(f"def get_{name}():\n    return {name!r}\n\n\n" for name in ("port", "name", "host"))
    (tmp_path / "code" / "settings.py").write_text(f"def get():\n    return 1\n\n\n{getters}")
    (tmp_path / "code" / "wire.py").write_text(
        'def send_request(request):\n    """Writes a request to the socket."""\n    return request\n'
    )
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        desk.index(tmp_path / "code", "code", name="code")
        answer = ask((desk.graph("code"), desk.engine), "how does a request get sent")
    assert next(one.node.qualified for one in answer.findings.values()) == "send_request"
    assert "get" not in {one.node.qualified for one in answer.findings.values()}


@pytest.mark.parametrize("name", ["make_noises", "mak_noise", "Till.make_nosie"])
def test_a_near_name_is_asked_back(asked: Asked, name: str) -> None:
    body = as_json(ask(asked, f"what calls {name}"), 8_000)
    also = " or Till [app/till.py:1-3]" if "." in name else ""
    assert body["summary"] == f"There is no {name} here. Did you mean make_noise [app/till.py:6-7]{also}?"
    assert {one["relationship"] for one in body["findings"]} == {"spelt alike"}


def test_a_name_that_nothing_is_near_to_is_searched_for(asked: Asked) -> None:
    answer = ask(asked, "what calls frobnicate")
    assert (answer.intent, answer.meant) == ("general", "")


def test_of_a_passage_with_several_definitions_the_one_that_is_asked_about_starts(tmp_path: Path) -> None:
    body = "".join(f"\tkeep(packs[{number}])\n" for number in range(8))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "repack.go").write_text(
        "package repo\n\ntype LogFunc func(text string)\n\n"
        f"// CopyBlobs saves the blobs of each pack that are still in use.\nfunc CopyBlobs(packs []int) {{\n{body}}}\n"
    )
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        desk.index(tmp_path / "code", "code", name="code")
        answer = ask((desk.graph("code"), desk.engine), "how are the blobs of a pack saved that are in use")
    assert next(iter(answer.findings.values())).node.qualified == "CopyBlobs"
