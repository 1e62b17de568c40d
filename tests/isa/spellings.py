"""One instruction from its text, and what the table says of it: for tests of spellings that kernels have."""

from __future__ import annotations

from pyptx.ir import Instruction, parse_module
from pyptx.isa import bind_instruction, check_target, target

_HEAD = """.version 9.4
.target sm_107a
.address_size 64
.visible .entry kernel()
{
.reg .pred %p<2>;
.reg .b16 %h<8>;
.reg .b32 %r<160>;
.reg .b64 %rd<8>;
.reg .f32 %f<160>;
.reg .f64 %fd<16>;
.reg .u32 %u<4>;
"""


def registers(prefix: str, count: int, first: int = 0) -> str:
    """``{%r0, %r1, ...}``"""
    return "{" + ", ".join(f"%{prefix}{first + i}" for i in range(count)) + "}"


def instruction(line: str) -> Instruction:
    """The instruction that ``line`` spells; registers are called p, h, r, rd, f, fd, u and numbered."""
    (function,) = parse_module(f"{_HEAD}{line}\n}}\n").functions
    (found,) = function.instructions()
    return found


def check_spelling(line: str, form: str, since: tuple[int, int], on: str, not_on: str) -> None:
    """``line`` is ``form``, begins with ``since``, and exists on these targets and not on those."""
    binding = bind_instruction(instruction(line))
    assert (binding.form_id, binding.since) == (form, since)
    for name in on.split():
        check_target(binding, target(name))
    assert not [n for n in not_on.split() if all(target(n) in allowed for allowed in binding.on)]
