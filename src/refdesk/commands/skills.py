"""`skills`: list, show, roll back, export, import, rate and copy playbooks."""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path
from typing import Any

import click

from refdesk.commands.desk import desk_from, json_option, on_one_line, print_json, shown
from refdesk.errors import InvalidInput, RefdeskError
from refdesk.skills.learn import Learner, as_draft
from refdesk.skills.model import CONFIDENCE_CHANGE, Outcome, Revision, Skill

_OUTCOMES = {outcome.replace("_", "-"): outcome for outcome in CONFIDENCE_CHANGE if outcome != "used"}


@click.group()
def skills() -> None:
    """List, show, roll back, export, import, rate and copy playbooks."""


@skills.command(name="list")
@json_option
@click.pass_context
def list_skills(context: click.Context, as_json: bool) -> None:
    """List all skills."""
    with desk_from(context) as desk:
        found = desk.learner.skills()
    if as_json:
        print_json([_brief(skill) for skill in found])
        return
    for skill in found:
        click.echo(f"{skill.skill_id}  v{skill.version}  {skill.confidence:.2f}  {on_one_line(skill.title)}")
    click.echo(f"{len(found)} skills." if found else "No skills yet.", err=True)


@skills.command()
@click.argument("skill_id")
@click.option("--version", "version", type=int, help="Show this version instead of the newest.")
@json_option
@click.pass_context
def show(context: click.Context, skill_id: str, version: int | None, as_json: bool) -> None:
    """Print the playbook of SKILL_ID."""
    with desk_from(context) as desk:
        learner = desk.learner
        skill = learner.get(skill_id) if version is None else _version(learner, skill_id, version)
    if as_json:
        print_json(skill.document())
    else:
        click.echo(shown(skill.resolution_md), nl=False)


@skills.command()
@click.argument("skill_id")
@click.option("--diff", is_flag=True, help="Print what each version changed, line by line.")
@json_option
@click.pass_context
def history(context: click.Context, skill_id: str, diff: bool, as_json: bool) -> None:
    """List the versions of SKILL_ID and what each changed."""
    from refdesk.skills.merge import changes

    with desk_from(context) as desk:
        revisions = desk.learner.history(skill_id)
    rows: list[dict[str, Any]] = []
    before: Skill | None = None
    for revision in revisions:
        said = changes(before, revision.skill) if before else ["Created."]
        rows.append({"version": revision.skill.version, "made_at": revision.made_at, "changes": said})
        if not as_json:
            click.echo(f"version {revision.skill.version}  {revision.made_at}")
            for line in said:
                click.echo(f"  {shown(line)}")
            old = before.resolution_md.splitlines() if diff and before else []
            new = revision.skill.resolution_md.splitlines()
            for line in difflib.unified_diff(old, new, "before", "after", lineterm="", n=1) if old else ():
                click.echo(f"    {shown(line)}")
        before = revision.skill
    if as_json:
        print_json(rows)


@skills.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.argument("skill_ids", nargs=-1)
@click.pass_context
def export(context: click.Context, folder: Path, skill_ids: tuple[str, ...]) -> None:
    """Write skills to FOLDER as NAME/SKILL.md, all of them unless SKILL_IDS are given."""
    from refdesk.skills.format import folder_name, to_markdown

    with desk_from(context) as desk:
        learner = desk.learner
        chosen = [learner.get(each) for each in skill_ids or [skill.skill_id for skill in learner.skills()]]
    for skill in chosen:
        target = folder / folder_name(skill) / "SKILL.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(to_markdown(skill), encoding="utf-8")
        click.echo(str(target))
    click.echo(f"{len(chosen)} skills written.", err=True)


@skills.command(name="import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.pass_context
def import_skills(context: click.Context, paths: tuple[Path, ...]) -> None:
    """Read skills from .md files or folders; one with a known id gets a new version if it differs."""
    from refdesk.skills.format import files_in, from_markdown

    failed = 0
    with desk_from(context) as desk:
        learner = desk.learner
        for file in (file for path in paths for file in files_in(path)):
            try:
                read = from_markdown(file.read_text(encoding="utf-8"))
                skill, done = learner.adopt(read.draft, skill_id=read.skill_id, confidence=read.confidence)
            except (RefdeskError, UnicodeDecodeError) as error:
                failed += 1
                click.echo(f"{file}: {error}", err=True)
                continue
            click.echo(f"{skill.skill_id}  v{skill.version}  {done}  {on_one_line(skill.title)}")
    if failed:
        raise InvalidInput(f"{failed} of the files could not be imported.", "Correct them and import them again.")


@skills.command()
@click.argument("skill_id")
@click.argument("outcome", type=click.Choice(sorted(_OUTCOMES)))
@json_option
@click.pass_context
def feedback(context: click.Context, skill_id: str, outcome: str, as_json: bool) -> None:
    """Report an outcome of SKILL_ID, which changes its confidence."""
    told: Outcome = _OUTCOMES[outcome]
    with desk_from(context) as desk:
        learner = desk.learner
        before = learner.get(skill_id).confidence
        skill = learner.rate(skill_id, told)
    if as_json:
        print_json(_brief(skill))
    else:
        click.echo(f"{on_one_line(skill.title)}: confidence {before:.2f} → {skill.confidence:.2f}")


@skills.command()
@click.argument("skill_id")
@click.argument("version", type=int)
@click.pass_context
def rollback(context: click.Context, skill_id: str, version: int) -> None:
    """Make VERSION of SKILL_ID the newest one again; none is lost."""
    with desk_from(context) as desk:
        learner = desk.learner
        skill, done = learner.adopt(as_draft(_version(learner, skill_id, version)), skill_id=skill_id)
    click.echo(f"{skill.skill_id}  v{skill.version}  {done}  {on_one_line(skill.title)}")


@skills.command()
@click.argument("target", type=click.Choice(["embedded", "neo4j"]))
@click.option("--replace", is_flag=True, help="Overwrite skills that TARGET holds with other versions or outcomes.")
@click.pass_context
def copy(context: click.Context, target: str, replace: bool) -> None:
    """Copy all skills to TARGET from the other database, with their versions and outcomes."""
    source = "neo4j" if target == "embedded" else "embedded"
    done: Counter[str] = Counter()
    with desk_from(context, skills=source) as old, desk_from(context, skills=target) as new:
        for skill_id in [skill.skill_id for skill in old.learner.skills()]:
            given, there = old.learner.kept(skill_id), new.learner.kept(skill_id)
            if given is None or given == there:
                done["unchanged"] += 1
                continue
            told = "copied" if there is None or replace or _is_behind(there, given) else "differs"
            done[told] += 1
            if told == "copied":
                new.learner.take(*given)
            click.echo(f"{skill_id}  v{given[0].version}  {told}  {on_one_line(given[0].title)}")
    click.echo(f"{done['copied']} skills copied to {target}, {done['unchanged']} unchanged.", err=True)
    if done["differs"]:
        raise InvalidInput(
            f"{done['differs']} skills have versions or outcomes in {target} that {source} lacks.",
            "Run it again with --replace to overwrite them.",
        )


def _is_behind(there: tuple[Skill, list[Revision]], given: tuple[Skill, list[Revision]]) -> bool:
    """Whether all versions and outcomes of the first are the second's too."""
    (mine, old), (theirs, new) = there, given
    counts = [(mine.counted(), theirs.counted())]
    counts += [(dict(one.outcomes), dict(other.outcomes)) for one, other in zip(old, new, strict=False)]
    return [(one.skill, one.made_at) for one in old] == [(one.skill, one.made_at) for one in new[: len(old)]] and all(
        times <= more.get(outcome, 0) for few, more in counts for outcome, times in few.items()
    )


def _brief(skill: Skill) -> dict[str, Any]:
    return {name: value for name, value in skill.document().items() if name != "resolution_md"}


def _version(learner: Learner, skill_id: str, version: int) -> Skill:
    found = {revision.skill.version: revision.skill for revision in learner.history(skill_id)}
    if version not in found:
        raise InvalidInput(f"Skill {skill_id} has no version {version}.", f"It has 1 to {max(found)}.")
    return found[version]
