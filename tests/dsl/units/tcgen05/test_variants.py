"""Every variant of every tcgen05 instruction of the table, through its wrapper, for each target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyptx.core.errors import TargetError
from pyptx.core.types import b16, b32, b64, pred
from pyptx.dsl import current, ptx, record, reg
from pyptx.dsl.units import tcgen05
from pyptx.ir import Instruction, print_module
from pyptx.isa import Match, check_module, forms_of
from pyptx.isa.table import variants
from pyptx.toolchain import Tool, check_text

pytestmark = [pytest.mark.full, pytest.mark.one_in(2)]

TARGETS = (
    "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_107a", "sm_107f", "sm_110a", "sm_110f",
)  # fmt: skip
WANTED = [match for form in forms_of("tcgen05") for match in variants(form)]


class Registers:
    """What the calls of one kernel share."""

    def __init__(self) -> None:
        self.taddr = reg.scalar(b32, init=0, name="taddr")
        self.desc = reg.scalar(b64, init=0, name="desc")
        mask, wide = reg.scalar(b16, init=3, name="mask"), reg.scalar(b32, init=3, name="wide_mask")
        self.mask = {None: mask, 16: mask, 32: wide}
        self.p = reg.scalar(pred, init=True, name="p")
        self.reduced = reg.scalar(b32, init=0, name="reduced")
        self.metadata = reg.array(b32, 4, init=0, name="metadata")
        self.vector = reg.array(b32, 128, init=0, name="vector")
        self.lanes = reg.array(b32, 8, init=0, name="lanes")


def memory_call(match: Match, r: Registers) -> str:
    """Make the call of :mod:`pyptx.dsl.units.tcgen05.memory` that is ``match``; returns the wrapper's name."""
    words, chosen = set(match.spelling), match.chosen
    group = int(chosen.get("cta_group", "cta_group::1")[-1])
    shape = match.form.id.rpartition(".")[2]
    split = {"half_split": 16} if shape == "16x32bx2" else {}
    match match.form.id.split(".")[1:]:
        case ["alloc", *exclusive]:
            shared = "shared::cta" in words
            ptx.tcgen05.alloc(
                r.taddr if shared else r.desc, 64, group,
                exclusive=bool(exclusive), space="cta" if shared else None,
            )  # fmt: skip
            return "alloc"
        case ["dealloc", *exclusive]:
            ptx.tcgen05.dealloc(r.taddr, 64, group, exclusive=bool(exclusive))
            return "dealloc"
        case ["relinquish_alloc_permit"]:
            ptx.tcgen05.relinquish_alloc_permit(group)
            return "relinquish_alloc_permit"
        case ["wait"]:
            name = chosen["op"].replace("::", "_")
            getattr(ptx.tcgen05, name)()
            return name
        case ["ld" | "st" as op, shape] if shape != "spcompress":
            count = int(chosen["num"][1:])
            values = r.vector[: count * {"16x128b": 2, "16x256b": 4}.get(shape, 1)]
            packed = bool({"pack::16b", "unpack::16b"} & words)
            if op == "ld":
                ptx.tcgen05.ld(values, r.taddr, shape, count, pack=packed, **split)
            else:
                ptx.tcgen05.st(r.taddr, values, shape, count, unpack=packed, **split)
            return op
    count = int(chosen["num"][1:])
    options: dict[str, Any] = {"abs": "abs" in words}
    if "spcompress" not in words:
        ptx.tcgen05.ld_red(
            r.vector[:count], r.reduced, r.taddr, chosen["redOp"], shape, count, chosen["type"],
            nan="NaN" in words, **options, **split,
        )  # fmt: skip
        return "ld_red"
    kept = r.metadata[: max(1, count // 32)] if count > 32 else r.metadata[0]
    values = r.vector[: count // 2]
    if "red" in words:
        options["nan"] = "NaN" in words
        ptx.tcgen05.ld_red_spcompress(kept, values, r.reduced, r.taddr, chosen["rowop"], count, **options)
        return "ld_red_spcompress"
    ptx.tcgen05.ld_spcompress(kept, values, r.taddr, chosen["rowop"], **options)
    return "ld_spcompress"


def multiply_call(match: Match, r: Registers, number: int) -> str:
    """Make the multiplication that is ``match``; optional operands come and go with ``number``."""
    words, chosen, form = set(match.spelling), match.chosen, match.form.id.split(".")
    kind = next(w for w in match.spelling if w.startswith("kind::")).removeprefix("kind::")
    a = ptx.addr(r.taddr) if form[-1] == "ts" else r.desc
    enable: Any = (True, False, r.p, ~r.p)[number % 4]
    name = "mma" + ("_ws" if "ws" in form else "") + ("_sp" if "sp" in form else "")
    operands: list[Any] = [r.taddr, a, r.desc, *([r.taddr] if "sp" in form else []), r.taddr, kind, enable]
    options: dict[str, Any] = {}
    if "ws" in form:
        if collector := chosen.get("collector"):
            _, buffer, use = collector.split("::")
            options |= {"collector": use, "buffer": int(buffer[1])}
        if number % 3:
            options["zero_column_mask"] = r.desc if number % 3 == 1 else tcgen05.zero_column_mask(used=4)
    else:
        group = int(chosen["cta_group"][-1])
        operands.append(group)
        for matrix in "ab":
            if collector := chosen.get(f"collector_{matrix}"):
                options[f"collector_{matrix}"] = collector.rpartition("::")[2]
        if "block_scale" in words:
            options |= {"scale_a": r.taddr, "scale_b": ptx.addr(r.taddr, 4)}
            if scale := chosen.get("scale"):
                options["scale_vec"] = scale if number % 2 else scale.removeprefix("scale_vec::")
        elif number % 2:
            options["disable_output_lane"] = r.lanes[: 4 * group]
            if kind in ("f16", "tf32") and "lut" not in form and current().target.family == 10:
                options["scale_input_d"] = number % 16
        if "lut" in form:
            options["lut"] = r.taddr
        if "ashift" in words:
            options["ashift"] = True
    getattr(ptx.tcgen05, name)(*operands, **options)
    return name


def call(match: Match, r: Registers, number: int) -> str:
    """Make the call that is ``match``; returns the wrapper's name."""
    words, chosen = set(match.spelling), match.chosen
    group = int(chosen.get("cta_group", "cta_group::1")[-1])
    match match.form.id.split(".")[1]:
        case "mma":
            return multiply_call(match, r, number)
        case "cp":
            packed = chosen.get("src_fmt")
            ptx.tcgen05.cp(
                r.taddr, r.desc, chosen["shape"], chosen.get("multicast"), group, decompress=packed
            )
            return "cp"
        case "shift":
            ptx.tcgen05.shift(r.taddr, group)
            return "shift"
        case "fence":
            name = chosen["op"].replace("::", "_")
            getattr(ptx.tcgen05, name)()
            return name
        case "commit":
            multicast = chosen.get("multicast")
            bits = int(multicast[-3:-1]) if multicast and multicast[-1] == "b" else None
            shared = "shared::cluster" in words
            ptx.tcgen05.commit(
                r.taddr if shared else r.desc, "cluster" if shared else None,
                r.mask[bits] if multicast else None, group, multicast_bits=bits,
                sync_restrict=(chosen.get("restrict") or "::").partition("::")[2] or None,
            )  # fmt: skip
            return "commit"
    return memory_call(match, r)


def kernel(numbers: Sequence[int], taken: set[int], wrappers: set[str]) -> Callable[[], None]:
    def body() -> None:
        r, trace = Registers(), current()
        for number in numbers:
            before = len(trace.statements)
            try:
                wrapper = call(WANTED[number], r, number)
            except TargetError:
                continue
            (last,) = trace.statements[before:]
            assert isinstance(last, Instruction)
            assert (last.opcode, last.modifiers) == ("tcgen05", WANTED[number].spelling)
            taken.add(number)
            wrappers.add(wrapper)

    return body


def test_every_variant_through_its_wrapper(ptxas: Tool) -> None:
    """One instruction each, spelled as the table has it; of each form one is assembled for every target.

    tests/isa assembles all variants of the table.
    """
    pairs = {n for n, match in enumerate(WANTED) if "cta_group::2" in match.spelling}
    taken: set[int] = set()
    wrappers: set[str] = set()
    for arch in TARGETS:
        for numbers in (sorted(pairs), sorted(set(range(len(WANTED))) - pairs)):
            here: set[int] = set()
            module = record(kernel(numbers, here, wrappers), (), (), entry="k", arch=arch).module
            assert list(check_module(module)) == []
            taken |= here
            first = sorted({WANTED[number].form.id: number for number in sorted(here, reverse=True)}.values())
            module = record(kernel(first, set(), set()), (), (), entry="k", arch=arch).module
            report = check_text(print_module(module).text, ptxas=ptxas)
            assert report.ok, f"{arch}: {report}"
    assert [WANTED[number].name for number in sorted(set(range(len(WANTED))) - taken)] == []
    assert wrappers == set(tcgen05.__all__) - BUILDERS


#: Functions that record no tcgen05 instruction: tested in test_tcgen05_descriptors.py.
BUILDERS = {
    "address", "advance", "instruction_descriptor", "make_instr_desc_f16bf16_f32", "masked_descriptor",
    "smem_descriptor", "with_scale_ids", "zero_column_mask",
}  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100", "sm_120a"])
def test_no_other_target_takes_any(arch: str) -> None:
    taken: set[int] = set()
    record(kernel(range(len(WANTED)), taken, set()), (), (), entry="k", arch=arch)
    assert not taken
