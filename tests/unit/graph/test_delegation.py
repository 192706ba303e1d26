"""A call through another object is no call of one's own method, and what stands in two files may be one thing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from refdesk.graph import Graph
from tests.unit.graph.indexed import callers, graph_of

FILES = {
    "lib/application.js": """var app = module.exports = {};

app.handle = function handle(req, res) {
  this.router.handle(req, res);
};

app.mount = function mount(fn) {
  var router = this.router;
  return router.mount(fn);
};

app.listen = function listen() {
  this.mount(1);
};
""",
    "serve.py": """class Server:
    def __init__(self, router):
        self.router = router

    def dispatch(self, request):
        return self.router.dispatch(request)

    def run(self):
        return self.dispatch(1)


class Branch:
    def climb(self):
        return self.parent.climb()
""",
    "page.ts": """export class Page {
  constructor(private inner: any) {}
  paint(at: number) { return this.inner.paint(at); }
  show() { return this.paint(1); }
}
""",
    "shop.rb": """class Shop
  def ring
    @till.ring
  end

  def old_stock
    1
  end

  def open
    ring
    throw_away(old_stock)
  end

  def count
    old_stock = 2
    say(old_stock)
  end

  def each_of(things)
    things.each { |old_stock| say(old_stock) }
  end

  def with(old_stock)
    say(old_stock)
  end
end
""",
    "send.php": "<?php\nclass Sender {\n  function deliver() { return $this->inner->deliver(); }\n"
    "  function run() { return $this->deliver(); }\n}\n",
    "db/table_cache.h": "class TableCache {\n public:\n  void Evict(int number);\n};\n",
    "db/table_cache.cc": '#include "table_cache.h"\nvoid TableCache::Evict(int number) {\n  drop(number);\n}\n',
    "db/db_impl.cc": '#include "db_impl.h"\nvoid DBImpl::Clean() {\n  table_cache_->Evict(1);\n}\n',
    "db/pump.h": "class Pump {\n  Valve* gate_;\n  void Run();\n};\n",
    "db/pump.cc": "void Pump::Run() {\n  gate_->Turn();\n}\n",
    "db/parts.h": "class Valve {\n  void Turn();\n};\nclass Knob {\n  void Turn();\n};\n",
    "shop/till.js": "export class Till { ring() {} }\nexport class Bell { ring() {} }\n",
    "shop/till.test.js": "import { Till, Bell } from './till';\ndescribe('till', () => {\n"
    "  const one = new Till();\n  it('rings', () => { one.ring(); });\n});\n",
    "lib/context.rb": "class Context\n  def present_one\n    1\n  end\nend\n\n"
    "class Work\n  def run\n    Thread.present_one\n    Context.present_one\n  end\nend\n",
    "lib/events.js": "exports.proc = {};\nproc.on = function on(name) {};\n\n"
    "function listen(runner) { runner.on('end'); }\n",
    "engine.py": "class Engine:\n    def start(self):\n        return self.slot.scheduler.next_request()\n",
    "schedule.py": "class BaseScheduler:\n    def next_request(self): ...\n\n\n"
    "class Scheduler(BaseScheduler):\n    def next_request(self): ...\n",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with graph_of(tmp_path_factory.mktemp("delegation"), FILES) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("app.handle", set()),
        ("app.mount", {"app.listen"}),
        ("Server.dispatch", {"Server.run"}),
        ("Branch.climb", {"Branch.climb"}),  # a parent is of one kind with it
        ("Page.paint", {"Page.show"}),
        ("Shop.ring", {"Shop.open"}),
        ("Shop.old_stock", {"Shop.open"}),  # a name alone is a call in Ruby, unless it is a variable
        ("Sender.deliver", {"Sender.run"}),
        ("Context.present_one", {"Work.run"}),
        ("proc.on", set()),  # every emitter has one
        ("TableCache.Evict", {"DBImpl.Clean"}),
        ("Valve.Turn", {"Pump.Run"}),  # by the member that another file declares
        ("Knob.Turn", set()),
        ("Till.ring", {""}),  # in a block of tests
        ("Bell.ring", set()),
        ("Scheduler.next_request", {"Engine.start"}),
    ],
)
def test_callers(graph: Graph, name: str, expected: set[str]) -> None:
    assert callers(graph, name) == expected


def test_a_type_of_another_codebase_has_nothing_of_ours(graph: Graph) -> None:
    (node,) = graph.find("Context.present_one")
    assert [edge.line for edge in graph.callers(node)] == [10]
