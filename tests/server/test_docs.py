"""Does the example in the documentation run?"""

from __future__ import annotations

import re
from pathlib import Path

from tests.mcp_client.stdio import StdioClient

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
SERVE = """
from refdesk.server import ServerOptions, serve
raise SystemExit(serve(make_toolsets, ServerOptions()))
"""


def test_the_example_toolset_serves(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    script = tmp_path / "example.py"
    script.write_text(example + SERVE)
    with StdioClient.python(script) as client:
        client.initialize()
        assert client.call("count_letters", {"word": "desk"})["result"]["structuredContent"] == {"letters": 4}
        refused = client.call("count_letters", {"word": "nothing"})["result"]
        assert refused["content"][0]["text"] == "There is no such word. Try another."
        assert client.end() == 0
