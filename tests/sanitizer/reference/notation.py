"""Programs in one line of text, for tests.

``st s; bar.sync #1 %64 | bar.sync #1 %64; ld s`` is one CTA of two warps; ``||`` separates CTAs.  An instruction is
an operation and some of these words:

============== ==============================================================
``s+4*8@1``    the address: buffer, offset, bytes from lane to lane, rank of the CTA
``<-g``        the source of a copy
``!bar@1``     the mbarrier that is used or signaled
``.relaxed``   semantics or scope, also both: ``.relaxed.gpu``
``=2``         the value
``x8``, ``v4`` bytes of an element, elements
``#1``         number: of a barrier, of pending groups, parity, mask of CTAs
``%64``        threads of a named barrier
``~read``      the qualifier
``$16``        bytes that an mbarrier is to expect
``0,1:``       first word: the lanes that execute it (lane 0)
============== ==============================================================

Buffers whose names begin with s are shared, others global, all of 32 bytes.  A program with mbarriers begins with their
initialization for one arrival per phase and a barrier of all threads.
"""

from __future__ import annotations

import re
from dataclasses import replace

from .program import Buffer, Instruction, Operand, Program, Statement

__all__ = ["parse"]

_WHOLE_WARP = ("bar.sync", "bar.arrive", "bar.red", "cluster.arrive", "cluster.wait", "shfl", "vote")
_SCOPES = ("cta", "cluster", "gpu", "gl", "sys")
_NUMBERS = {"=": "value", "x": "size", "v": "vector", "#": "number", "%": "threads", "$": "bytes"}


def parse(text: str, count: int = 1) -> Program:
    """The program of ``text``, with mbarriers for ``count`` arrivals."""
    ctas = [[_warp(part) for part in cta.split("|")] for cta in re.split(r"\|\|", text)]
    warps = max(map(len, ctas))
    program = Program(len(ctas), warps)
    for rank, cta in enumerate(ctas):
        for warp in range(warps):
            program.code[rank, warp] = cta[warp] if warp < len(cta) else []
    for _, _, statement in program.statements():
        one = statement.instruction
        for operand in (one.to, one.source):
            if operand is not None:
                space = "shared" if operand.name.startswith("s") else "global"
                program.buffers[operand.name] = Buffer(operand.name, space, 32)
        if one.mbarrier is not None and one.mbarrier.name not in program.mbarriers:
            program.mbarriers.append(one.mbarrier.name)
    return _initialized(program, count) if program.mbarriers and "init" not in text else program


def _initialized(program: Program, count: int) -> Program:
    code = {}
    for (cta, warp), statements in program.code.items():
        start = []
        if not warp:
            start = [
                Statement(_instruction(f"mbarrier.init !{name} #{count}"), (0,)) for name in program.mbarriers
            ]
        whole = (
            ("cluster.arrive", "cluster.wait") if program.ctas > 1 else (f"bar.sync %{32 * program.warps}",)
        )
        code[cta, warp] = [*start, *(Statement(_instruction(one)) for one in whole), *statements]
    return replace(program, code=code)


def _warp(text: str) -> list[Statement]:
    return [_statement(part.strip()) for part in text.split(";") if part.strip()]


def _statement(text: str) -> Statement:
    found = re.match(r"([\d,]+):\s*(.*)", text)
    lanes = tuple(int(n) for n in found[1].split(",")) if found else (0,)
    one = _instruction(found[2] if found else text)
    return Statement(one, () if one.op in _WHOLE_WARP else lanes)


def _instruction(text: str) -> Instruction:
    op, *words = text.split()
    fields: dict[str, object] = {}
    for word in words:
        if word.startswith("."):
            for one in word[1:].split("."):
                fields["scope" if one in _SCOPES else "sem"] = one
        elif word.startswith("<-"):
            fields["source"] = _operand(word[2:])
        elif word.startswith("!"):
            fields["mbarrier"] = _operand(word[1:])
        elif word.startswith("~"):
            fields["qualifier"] = word[1:]
        elif re.fullmatch(r"[=xv#%$]\d+", word):
            fields[_NUMBERS[word[0]]] = int(word[1:])
        else:
            fields["to"] = _operand(word)
    return Instruction(op, **fields)  # type: ignore[arg-type]


def _operand(text: str) -> Operand:
    found = re.fullmatch(r"(\w+?)(?:\+(\d+))?(?:\*(\d+))?(?:@(\d))?", text)
    assert found is not None, text
    rank = int(found[4]) if found[4] else None
    return Operand(found[1], int(found[2] or 0), rank, int(found[3] or 0))
