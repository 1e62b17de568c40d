"""An instruction of each form with operands that mean nothing: it has a meaning, or ends in a finding."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.findings import RULES
from pyptx.isa import Binding, Form, all_forms, target
from pyptx.isa.table import CHAPTERS, chapter_of
from pyptx.isa.targets import KNOWN_TARGETS, VERSIONS
from tests.isa.samples import DECLARED, file_of, instructions

pytestmark = pytest.mark.full

#: What registers hold, by their width: small, large, NaN, and addresses inside and outside of each window.
_WORDS = {
    8: ["0", "255"],
    16: ["0", "-1", "1", "0x7c01", "0x8000"],
    32: ["0", "-1", "1", "0x400", "0x7f800001", "0x80000000", "31", "0x500", "16", "0xffff0000", "0x10000"],
    64: [
        *(
            "0",
            "-1",
            "1",
            "0x400",
            "0x7e00000400",
            "0x7f00000000",
            "0x8000000000000000",
            "0x7ff8000000000001",
        ),
        *("0x7b00000000", "0x7d00000000", "0x7c00000010", "0x4000000000000100", "array", "array"),
    ],
}
_THREAD = "u32_7"


def _filled(line: str, draw: random.Random) -> list[str]:
    """Statements that give every register of the instruction a value."""
    made = [f"mov.u32 %{_THREAD}, %tid.x;"]
    for name in sorted(set(re.findall(r"%(\w+_\d+)", line)) - {_THREAD}):
        kind = DECLARED[name]
        value = draw.choice(_WORDS.get(kind.bits, ["0"]))
        if kind.kind == "p":
            made.append(
                f"setp.{draw.choice(['eq', 'lt', 'ne'])}.u32 %{name}, %{_THREAD}, {draw.choice([0, 7, 99])};"
            )
        elif kind.bits == 128:
            made.append(f"mov.u64 %u64_7, -1; mov.b128 %{name}, {{%u64_7, %u64_7}};")
        elif kind.bits == 8:
            made.append(f"mov.u16 %u16_7, {value}; cvt.u8.u16 %{name}, %u16_7;")
        elif value == "array":
            made.append(f"ld.param.{kind.name} %{name}, [x];")
        else:
            made.append(f"mov.b{kind.bits} %{name}, {value};")
    return made


def _some(form: Form, draw: random.Random) -> tuple[Binding, str]:
    """One of the form's first instructions."""
    found = [pair for pair, _ in zip(instructions(form, 20), range(draw.randint(1, 60)), strict=False)]
    binding, instruction = draw.choice(found)
    return binding, f"{str(instruction).rstrip(';')};"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_wild_operands(chapter: str) -> None:
    for form in all_forms():
        if chapter_of(form.id) != chapter:
            continue
        draw = random.Random(form.id)
        binding, line = _some(form, draw)
        targets = [t for t in map(target, KNOWN_TARGETS) if all(t in allowed for allowed in binding.on)]
        for block, first in (
            (1, ""),
            (96, ""),
            (32, f"setp.lt.u32 %pred_7, %{_THREAD}, 16; @!%pred_7 bra there;"),
        ):
            lines = [*_filled(line, draw), first, line]
            text, _ = file_of(lines, VERSIONS[-1], str(targets[-1]), per_entry=len(lines))
            module = sim.load(text)
            arguments = [np.zeros(1024, np.uint32), *[0] * (len(module.module.entry(None).params) - 1)]
            report = module.launch(grid=1, block=block, args=arguments, max_steps=1000)
            assert {finding.rule.name for finding in report.findings} <= RULES.keys(), line
            assert str(report)
