"""``pyptx isa``: shows an instruction of the instruction table.

Prints the texts of :mod:`.describe`, or JSON, for the instruction forms that :mod:`.lookup` finds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from ..core.errors import TargetError
from ..isa import Form, Target, all_forms, target
from ..isa.table import chapter_of
from .describe import FormText, ModifierText, OperandText, call_text, chapter_title, describe_form, survey
from .lookup import Found, Legality, look_up, narrowed, search_forms
from .show import Section, show_sections

__all__ = ["command"]

#: If more forms than this are found, the command lists them briefly instead of showing each in full.
_DETAILED = 8


@click.command()
@click.argument("name", required=False)
@click.option(
    "--search",
    metavar="WORDS",
    help="List the forms whose name, summary or syntax contains all WORDS, or whose CUDA C++ name does.",
)
@click.option("--target", "target_name", metavar="sm_NN", help="Leave out what this target lacks.")
@click.option(
    "--full", is_flag=True, help=f"Show every form in full, even if there are more than {_DETAILED}."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_context
def command(
    context: click.Context,
    name: str | None,
    search: str | None,
    target_name: str | None,
    full: bool,
    as_json: bool,
) -> None:
    """Show instructions: syntax, operands, versions, targets, and whether a spelling is legal.

    NAME is an opcode, a spelling or the beginning of one, the name of a form, a chapter, a function of the
    DSL, or a name of CUDA C++; without it, every opcode is listed.

    \b
        pyptx isa mbarrier.try_wait
        pyptx isa ld.global.v4.f32
        pyptx isa ptx.inst.st.shared__cta.u32
        pyptx isa ptx.mbarrier.arrive_expect_tx
        pyptx isa __shfl_down_sync
        pyptx isa --search "tensor memory" --target sm_100a

    Exit status 2 means that there is no such instruction.
    """
    if name is not None and search is not None:
        raise click.UsageError("give NAME or --search, not both")
    arch = _target(target_name)
    if name is None and search is None:
        _show_all(arch, as_json)
        return
    found = look_up(name, arch) if name is not None else Found(search_forms(search or "", arch))
    if as_json:
        click.echo(json.dumps(_as_json(found), indent=2))
    else:
        show_sections(list(_sections(found, name or search or "", full)))
    missing = not found.forms and found.about is None
    if missing or (found.verdict is not None and found.verdict.legal is False):
        context.exit(2)


def _target(name: str | None) -> Target | None:
    try:
        return target(name) if name is not None else None
    except TargetError as error:
        raise click.UsageError(f"{error.message}; {error.hint}") from None


# --- every opcode -------------------------------------------------------------------------------


def _show_all(arch: Target | None, as_json: bool) -> None:
    chapters: dict[str, dict[str, list[Form]]] = {}
    for form in all_forms():
        if arch is None or narrowed(form, arch) is not None:
            chapters.setdefault(chapter_of(form.id), {}).setdefault(form.opcode, []).append(form)
    if as_json:
        listed = [
            {
                "chapter": chapter,
                "title": chapter_title(chapter),
                "opcodes": {opcode: [form.id for form in forms] for opcode, forms in words.items()},
            }
            for chapter, words in chapters.items()
        ]
        click.echo(json.dumps({"chapters": listed}, indent=2))
        return
    show_sections(
        [
            (
                f"{chapter}: {chapter_title(chapter)}",
                [(opcode, _count(len(forms), forms[0].summary)) for opcode, forms in words.items()],
            )
            for chapter, words in chapters.items()
        ]
    )


def _count(number: int, summary: str) -> str:
    return summary if number == 1 else f"{number} forms. {summary}"


# --- what was found -----------------------------------------------------------------------------


def _sections(found: Found, name: str, full: bool) -> Iterator[Section]:
    if found.verdict is not None:
        yield _verdict(found.verdict)
    if found.about is not None:
        yield f"{found.about.name}: {found.about.kind}", [("is", found.about.summary)]
    if not found.forms and found.about is None:
        near = ", ".join(found.near)
        rows = [("nearest", near)] if near else [("hint", "`pyptx isa` lists every opcode")]
        if found.verdict is None:
            yield f"{name}: no such instruction", rows
        elif near:
            yield "See also", rows
        return
    if len(found.forms) > _DETAILED and not full:
        rows = [(form.id, _short(form)) for form in found.forms]
        yield f"{len(rows)} forms; `pyptx isa FORM` shows one, --full all", rows
        return
    for form in found.forms:
        text = describe_form(form)
        yield f"[{text.id}] {text.summary}", list(_rows(form, text, found.words))


def _short(form: Form) -> str:
    """Return two lines about an instruction: its summary; then what it needs and how it is simulated."""
    text = describe_form(form)
    return f"{text.summary}\n{text.needs}; simulator: {text.fidelity}"


def _verdict(verdict: Legality) -> Section:
    if verdict.legal:
        return verdict.spelling, [("legal", f"yes: {verdict.needs}")]
    if verdict.legal is None:
        return verdict.spelling, [("legal", f"incomplete: {verdict.why}"), ("for example", verdict.hint)]
    return verdict.spelling, [("legal", f"no: {verdict.why}"), ("hint", verdict.hint)]


def _variants(form: Form, words: tuple[str, ...]) -> str:
    total = survey(form).count
    with_words = survey(form, words).count if words else total
    if with_words == total:
        return f"{total:,}"
    return f"{total:,}, of which {with_words:,} with {''.join(f'.{word}' for word in words)}"


def _python(form: Form, words: tuple[str, ...]) -> str:
    shortest = survey(form, words).shortest or survey(form).shortest
    return call_text(shortest) if shortest is not None else ""


def _rows(form: Form, text: FormText, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    yield "syntax", text.syntax
    yield from _lines("Python", [_python(form, words)])
    for modifier in text.modifiers:
        if not modifier.literal or modifier.optional or modifier.members[0].needs:
            yield modifier.name, _modifier(modifier)
    for operand in text.operands:
        yield operand.name, _operand(operand)
    yield from _lines("rule", text.rules)
    yield from _lines("note", text.notes)
    yield "needs", text.needs
    yield "variants", _variants(form, words)
    yield "simulator", text.fidelity
    yield from _lines("wrapper", text.wrappers)
    yield from _lines("manual", [text.manual])


def _lines(label: str, values: Sequence[str]) -> Iterator[tuple[str, str]]:
    if any(values):
        yield label, "\n".join(values)


def _modifier(modifier: ModifierText) -> str:
    members = (
        "" if modifier.literal and not modifier.members[0].needs else ", ".join(map(str, modifier.members))
    )
    return ": ".join(filter(None, (modifier.presence, members)))


def _operand(operand: OperandText) -> str:
    first = "; ".join(filter(None, (f"{operand.access}: {operand.what}", operand.type, *operand.notes)))
    cases = [
        f"  {part.name}: {kind} with {', '.join(keys)}"
        for part in operand.depending
        for kind, keys in part.cases
    ]
    return "\n".join([first, *cases])


def _as_json(found: Found) -> dict[str, Any]:
    forms = []
    for form in found.forms:
        text = describe_form(form)
        forms.append(
            {
                **dataclasses.asdict(text),
                "manual": text.manual,
                "variants": survey(form).count,
                "python": _python(form, found.words),
            }
        )
    return {
        "verdict": dataclasses.asdict(found.verdict) if found.verdict is not None else None,
        "near": list(found.near),
        "about": dataclasses.asdict(found.about) if found.about is not None else None,
        "forms": forms,
    }
