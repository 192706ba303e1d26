"""`refdesk skills`, and skills as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from refdesk.app import open_desk
from refdesk.cli import cli
from refdesk.commands.skills import skills
from refdesk.errors import InvalidInput, SkillNotFound
from refdesk.llm.thinkers import LocalThinker
from refdesk.model import Query
from refdesk.settings import Settings
from refdesk.skills.format import from_markdown, to_markdown
from refdesk.skills.learn import Learner
from refdesk.store.local import LocalStore
from refdesk.store.playbooks import RecordPlaybooks
from tests.unit.skills.conversations import of_kind, shipped_embedder

Run = Callable[..., Result]

BY_HAND = """---
name: reset-router
description: Customer has no internet and the router light is red.
---

# Reset the router

## Goal
Get the customer online.

## Prerequisites
- The router has power

## Steps

### 1. Restart
**Do:** Ask for a restart
**Check:** The light is green
**Say:** Please unplug it for a minute.

## Edge Cases
None.

## Escalation
After two restarts.
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def invoke(*arguments: str, library: str = "library", fails: bool = False) -> Result:
        result = CliRunner().invoke(skills, list(arguments), obj={"library": str(tmp_path / library)})
        assert fails or result.exit_code == 0, (result.output, result.exception)
        return result

    return invoke


@pytest.fixture
def skill_id(tmp_path: Path) -> str:
    """A skill of two versions in the library."""
    embedder = shipped_embedder()
    store = LocalStore(tmp_path / "library")
    learner = Learner(RecordPlaybooks(store), lambda: embedder)
    first, second = of_kind("locked_out")[:2]
    made = learner.create(first.transcript, LocalThinker(embedder)).skill.skill_id
    learner.update(made, second.transcript, LocalThinker(embedder), feedback="Forced a sync because it was cached.")
    store.close()
    return made


def test_list_and_show(run: Run, skill_id: str) -> None:
    assert skill_id in run("list").stdout
    (listed,) = json.loads(run("list", "--json").stdout)
    assert (listed["skill_id"], listed["version"]) == (skill_id, 2)
    assert run("show", skill_id).stdout.startswith("# ")
    old, new = (json.loads(run("show", skill_id, "--json", "--version", v).stdout) for v in "12")
    assert "sync" in new["resolution_md"] and "sync" not in old["resolution_md"]
    assert isinstance(run("show", skill_id, "--version", "9", fails=True).exception, InvalidInput)
    assert isinstance(run("show", "sk_123", fails=True).exception, SkillNotFound)
    assert run("list", library="empty").stdout == ""


def test_history_says_what_each_version_changed(run: Run, skill_id: str) -> None:
    first, second = json.loads(run("history", skill_id, "--json").stdout)
    assert first["changes"] == ["Created."]
    assert any("sync" in change for change in second["changes"])
    shown = run("history", skill_id, "--diff").stdout
    assert "version 2" in shown and "\n    +" in shown


def test_feedback_moves_confidence(run: Run, skill_id: str) -> None:
    before = json.loads(run("list", "--json").stdout)[0]["confidence"]
    for outcome, change in (("confirmed", 0.1), ("likely", 0.03), ("likely-failure", -0.05), ("failure", -0.1)):
        after = json.loads(run("feedback", skill_id, outcome, "--json").stdout)["confidence"]
        assert after == pytest.approx(before + change)
        before = after
    assert run("feedback", skill_id, "great", fails=True).exit_code == 2


def test_skills_travel_as_agent_skill_folders(run: Run, skill_id: str, tmp_path: Path) -> None:
    run("export", str(tmp_path / "out"))
    (file,) = (tmp_path / "out").glob("*/SKILL.md")
    front = yaml.safe_load(file.read_text().split("---")[1])
    assert front["name"] == file.parent.name
    assert len(front["name"]) <= 64 and set(front["name"]) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert 0 < len(front["description"]) <= 1024

    run("import", str(tmp_path / "out"), library="other")
    here, there = (json.loads(run("show", skill_id, "--json", library=name).stdout) for name in ("library", "other"))
    for name in ("title", "problem", "conditions", "keywords", "confidence", "product_area", "issue_type"):
        assert here[name] == there[name], name
    assert run("import", str(file), library="other").stdout.split()[1:3] == ["v1", "unchanged"]
    file.write_text(file.read_text().replace("## Escalation\n\n", "## Escalation\n\nAfter two tries. "))
    assert run("import", str(file), library="other").stdout.split()[1:3] == ["v2", "updated"]
    assert "v3  new" not in run("import", str(file)).stdout


def test_a_skill_written_by_hand_is_imported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(BY_HAND)
    (tmp_path / "broken.md").write_text("# Just a title\n\nwords")
    failed = run("import", str(tmp_path / "SKILL.md"), str(tmp_path / "broken.md"), fails=True)
    assert isinstance(failed.exception, InvalidInput)
    assert "broken.md: Not a valid playbook" in failed.stderr
    (listed,) = json.loads(run("list", "--json").stdout)
    assert listed["title"] == "Reset the router"
    assert listed["problem"] == "Customer has no internet and the router light is red."
    assert "router" in listed["keywords"]


def test_what_is_exported_reads_back_the_same(skill_id: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "library")
    learner = Learner(RecordPlaybooks(store), lambda: None)
    skill = learner.get(skill_id)
    read = from_markdown(to_markdown(skill))
    assert (read.skill_id, read.confidence) == (skill.skill_id, skill.confidence)
    assert (read.draft.problem, read.draft.keywords) == (skill.problem, skill.keywords)
    assert read.draft.playbook.prerequisites == skill.conditions
    store.close()
    with pytest.raises(InvalidInput, match="front matter is not YAML"):
        from_markdown("---\na: [\n---\n# x")


def test_a_search_over_everything_finds_playbooks(tmp_path: Path, skill_id: str) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    for number in range(6):
        (root / f"{number}.md").write_text(f"# Accounts {number}\n\nAn account has a name and plan {number}.\n")
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        desk.index(root, "files", name="notes")
        asked = Query(text="customer is locked out of their account", limit=3)
        page = desk.search_everything(asked)
        (found,) = (hit for hit in page.hits if hit.stored.chunk.kind == "playbook")
        assert (found.stored.document.id, found.stored.document.collection) == (skill_id, "playbooks")
        assert page.hits[0] is found and 0.5 < found.score < 1 and page.more
        pages = [desk.search_everything(replace(asked, offset=at, limit=1)).hits for at in range(3)]
        assert [hit.stored.id for (hit,) in pages] == [hit.stored.id for hit in page.hits]
        assert all(hit.stored.id > 0 for hit in desk.search(asked).hits)
        other = desk.search_everything(Query(text="how large is the moon")).hits
        assert not [hit for hit in other if hit.stored.chunk.kind == "playbook"]
    command = [*("--library", str(tmp_path / "library")), "search", "customer is locked out of their account"]
    shown = CliRunner().invoke(cli, command).stdout
    assert shown.startswith(f"1. {skill_id}  playbook ") and "[playbooks] " in shown
    assert "[playbooks]" not in CliRunner().invoke(cli, [*command, "--collection", "notes"]).stdout
    store = LocalStore(tmp_path / "library")
    (used,) = RecordPlaybooks(store).list_skills()
    assert used.times_used == 0
    store.close()
