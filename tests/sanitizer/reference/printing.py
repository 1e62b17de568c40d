"""Prints a program as a PTX kernel, and says on which line each statement stands."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from .program import Instruction, Operand, Program, Statement

__all__ = ["TEMPLATES", "Printed", "to_ptx"]

#: The text of each operation.  ``{q}`` is the semantics and the scope, ``{s}`` the state space, ``{t}`` the type,
#: ``{to}``, ``{source}``, ``{bar}`` are addresses, ``{x}`` registers for a value, ``{v}`` the value itself.
TEMPLATES: dict[str, str] = {
    "ld": "ld{q}{s}{vec}{t} {x}, [{to}];",
    "poll": "ld{q}{s}{t} {x}, [{to}];",
    "poll.atom": "atom{q}{s}.or.b32 {x}, [{to}], 0;",
    "ld.nc": "ld.global.nc{t} {x}, [{to}];",
    "st": "st{q}{s}{vec}{t} [{to}], {x};",
    "atom": "atom{q}{s}.add{t} {x}, [{to}], {v};",
    "red": "red{q}{s}.add{t} [{to}], {v};",
    "red.v2": "red{q}{s}.add.v2.f32 [{to}], {{%f, %f}};",
    "red.f16x2": "red{q}{s}.add.noftz.f16x2 [{to}], %b0;",
    "fence": "fence{q};",
    "membar": "membar{q};",
    "fence.proxy.async": "fence.proxy.async{qualifier};",
    "fence.mbarrier_init": "fence.mbarrier_init.release.cluster;",
    "bar.sync": "bar.sync {n}, {threads};",
    "bar.arrive": "bar.arrive {n}, {threads};",
    "bar.red": "bar.red.popc.u32 %b0, {n}, {threads}, %always;",
    "bar.warp.sync": "bar.warp.sync {mask};",
    "shfl": "shfl.sync.idx.b32 %b0, %lane, 0, 31, -1;",
    "vote": "vote.sync.ballot.b32 %b0, %always, -1;",
    "cluster.arrive": "barrier.cluster.arrive{q}.aligned;",
    "cluster.wait": "barrier.cluster.wait{q}.aligned;",
    "mbarrier.init": "mbarrier.init.shared::cta.b64 [{bar}], {n};",
    "mbarrier.inval": "mbarrier.inval.shared::cta.b64 [{bar}];",
    "mbarrier.arrive": "mbarrier.arrive{q}.{bars}.b64 _, [{bar}]{count};",
    "mbarrier.expect_tx": "mbarrier.expect_tx.relaxed.cta.{bars}.b64 [{bar}], {bytes};",
    "mbarrier.arrive.expect_tx": "mbarrier.arrive.expect_tx{q}.{bars}.b64 _, [{bar}], {bytes};",
    "mbarrier.wait": "mbarrier.try_wait.parity{q}.shared::cta.b64 %p, [{bar}], {n};",
    "cp.async": "cp.async.ca.shared.global [{to}], [{source}], {size};",
    "cp.async.commit": "cp.async.commit_group;",
    "cp.async.wait": "cp.async.wait_group {n};",
    "cp.async.wait_all": "cp.async.wait_all;",
    "cp.async.arrive": "cp.async.mbarrier.arrive{qualifier}.shared::cta.b64 [{bar}];",
    "bulk.load": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{multicast} [{to}], [{source}], {size}, [{bar}]{ctas};",
    "bulk.copy": "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [{to}], [{source}], {size}, [{bar}];",
    "bulk.store": "cp.async.bulk.global.shared::cta.bulk_group [{to}], [{source}], {size};",
    "bulk.reduce": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [{to}], [{source}], {size};",
    "bulk.load.tensor": "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{multicast} [{to}], [{source}, {{%x}}], [{bar}]{ctas};",
    "bulk.store.tensor": "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [{to}, {{%x}}], [{source}];",
    "bulk.reduce.tensor": "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [{to}, {{%x}}], [{source}];",
    "bulk.commit": "cp.async.bulk.commit_group;",
    "bulk.wait": "cp.async.bulk.wait_group{qualifier} {n};",
    "st.async": "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{t} [{to}], {x}, [{bar}];",
    "red.async": "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [{to}], {x}, [{bar}];",
}

#: Statements with their positions in the warp's code.
_Run = list[tuple[int, Statement]]
_TYPES = {1: ".u8", 2: ".u16", 4: ".u32", 8: ".u64"}


class Printed:
    """The text of a program.

    Attributes:
        text: the PTX.
        lines: the line of each statement, by ((CTA, warp), position).
        maps: the global buffers that have a tensor map of u32 elements in boxes of 4, as parameters after the pointers.
        statements: the reverse.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: dict[tuple[tuple[int, int], int], int] = {}
        self._mapped: dict[tuple[str, int], str] = {}
        self._labels = 0
        named = [one.to if one.op != "bulk.load" else one.source for one in _tensor_copies(program)]
        self.maps = sorted({operand.name for operand in named if operand is not None})
        self._out: list[str] = []
        self._head()
        body = self._body_text()
        for (name, rank), register in self._mapped.items():
            self._out += [f"    mov.u32 {register}, {name};"]
            self._out += [f"    mapa.shared::cluster.u32 {register}, {register}, {rank};"]
        shift = len(self._out)
        self._out += body
        self._out += ["    ret;", "}", ""]
        self.lines = {key: line + shift for key, line in self.lines.items()}
        self.statements = {line: key for key, line in self.lines.items()}
        self.text = "\n".join(self._out)

    def _head(self) -> None:
        program = self.program
        globals_ = [b for b in program.buffers.values() if b.space == "global"]
        params = ", ".join(
            [f".param .u64 p_{b.name}" for b in globals_]
            + [f".param .align 64 .b8 p_map_{name}[128]" for name in self.maps]
        )
        self._out += [
            ".version 8.8",
            ".target sm_90a",
            ".address_size 64",
            "",
            f".visible .entry k({params})",
        ]
        self._out += [
            "{",
            "    .reg .pred %p, %out, %always;",
            "    .reg .b32 %i, %n, %lane, %warp, %rank, %t, %a, %c, %b<4>;",
        ]
        self._out += ["    .reg .b16 %h, %mask;", "    .reg .b64 %d<4>, %g;"]
        self._out += [f"    .reg .b64 %g_{b.name};" for b in globals_]
        self._out += [f"    .reg .b64 %map_{name};" for name in self.maps]
        self._out += ["    .reg .b32 %x;", "    .reg .f32 %f;"]
        self._out += ["    .reg .b32 %m<16>;"]
        for buffer in program.buffers.values():
            if buffer.space == "shared":
                self._out.append(f"    .shared .align 128 .b8 {buffer.name}[{buffer.size}];")
        self._out += [f"    .shared .align 8 .b64 {name};" for name in program.mbarriers]
        for buffer in globals_:
            self._out.append(f"    ld.param.u64 %g_{buffer.name}, [p_{buffer.name}];")
            self._out.append(f"    cvta.to.global.u64 %g_{buffer.name}, %g_{buffer.name};")
        for name in self.maps:
            self._out += [
                f"    mov.b64 %map_{name}, p_map_{name};",
                f"    cvta.param.u64 %map_{name}, %map_{name};",
            ]
        self._out += ["    mov.f32 %f, 0f3F800000;"]
        self._out += ["    mov.u32 %t, %tid.x;", "    and.b32 %lane, %t, 31;", "    shr.u32 %warp, %t, 5;"]
        self._out += ["    mov.u32 %rank, %ctaid.x;", "    setp.eq.u32 %always, %t, %t;"]
        self._out += [f"    mov.u32 %b{n}, {n};" for n in range(4)]
        self._out += [f"    mov.u64 %d{n}, 1;" for n in range(4)] + ["    mov.b16 %h, 1;"]

    def _body_text(self) -> list[str]:
        lines: list[str] = []
        for warp, statements in sorted(self.program.code.items()):
            done = self._label()
            lines += [f"    setp.ne.u32 %out, %rank, {warp[0]};", f"    @%out bra {done};"]
            lines += [f"    setp.ne.u32 %out, %warp, {warp[1]};", f"    @%out bra {done};"]
            self._warp(lines, warp, statements)
            lines.append(f"{done}:")
        return lines

    def _warp(self, lines: list[str], warp: tuple[int, int], statements: list[Statement]) -> None:
        for loop, group in groupby(enumerate(statements), key=lambda pair: pair[1].loop):
            members = list(group)
            if not loop:
                self._run(lines, warp, members)
                continue
            turns = [list(turn) for _, turn in groupby(members, key=lambda pair: pair[1].turn)]
            again = self._label()
            lines += ["    mov.u32 %i, 0;", f"{again}:"]
            self._run(lines, warp, turns[0], self._parities(turns))
            lines += [
                "    add.u32 %i, %i, 1;",
                f"    setp.lt.u32 %p, %i, {len(turns)};",
                f"    @%p bra {again};",
            ]
            for turn in turns[1:]:
                for (first, _), (position, _) in zip(turns[0], turn, strict=True):
                    self.lines[warp, position] = self.lines[warp, first]

    def _parities(self, turns: list[_Run]) -> dict[int, str]:
        """Instructions that compute the parities that change from turn to turn, by position in the first turn."""
        changing: dict[int, str] = {}
        for nth, (position, statement) in enumerate(turns[0]):
            numbers = [turn[nth][1].instruction.number for turn in turns]
            if len(set(numbers)) > 1:
                assert numbers == [(turn & 1) ^ numbers[0] for turn in range(len(turns))]
                changing[position] = f"    and.b32 %n, %i, 1; xor.b32 %n, %n, {numbers[0]};"
            same = [replace(turn[nth][1].instruction, number=0) for turn in turns]
            assert set(same) == {replace(statement.instruction, number=0)}
        return changing

    def _run(
        self, lines: list[str], warp: tuple[int, int], members: _Run, changing: dict[int, str] | None = None
    ) -> None:
        """Statements one after the other, each guarded by a branch around it for the other lanes."""
        lanes: tuple[int, ...] = ()
        skip = ""
        for position, statement in members:
            if statement.lanes != lanes:
                if lanes:
                    lines.append(f"{skip}:")
                lanes = statement.lanes
                if lanes:
                    skip = self._label()
                    mask = sum(1 << lane for lane in lanes)
                    lines += [
                        f"    mov.u32 %t, {mask};",
                        "    shr.b32 %t, %t, %lane;",
                        "    and.b32 %t, %t, 1;",
                    ]
                    lines += ["    setp.eq.u32 %out, %t, 0;", f"    @%out bra {skip};"]
            parity = (changing or {}).get(position, "")
            lines += [parity] * bool(parity)
            self._statement(lines, (warp, position), statement, "%n" if parity else "")
        if lanes:
            lines.append(f"{skip}:")

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def _statement(
        self, lines: list[str], key: tuple[tuple[int, int], int], statement: Statement, number: str
    ) -> None:
        """One instruction.  ``number`` is a register for its number, or empty."""
        one = statement.instruction
        registers, before = self._registers(one, len(statement.lanes))
        lines += before
        words = self._words(one, statement.lanes)
        words["x"] = registers
        words["n"] = number or words["n"]
        for word, operand in (("to", one.to), ("source", one.source), ("bar", one.mbarrier)):
            if operand is not None:
                register = "%c" if word == "source" else "%a"
                words[word] = self._operand(lines, one, operand, statement.lanes, register)
        again = self._label() if one.op in ("poll", "poll.atom", "mbarrier.wait") else ""
        if again:
            lines.append(f"{again}:")
        form = f"{one.op}.tensor" if one.qualifier == "tensor" else one.op
        lines.append("    " + TEMPLATES[form].format(**words))
        self.lines[key] = len(lines)
        if one.op.startswith("poll"):
            register = registers if one.size != 1 else "%h"
            kind = _TYPES[max(one.size, 2)]
            lines += [f"    setp.ne{kind} %p, {register}, {one.value};", f"    @%p bra {again};"]
        elif one.op == "mbarrier.wait":
            lines.append(f"    @!%p bra {again};")

    def _words(self, one: Instruction, lanes: tuple[int, ...]) -> dict[str, str]:
        """What the template's fields stand for, but for addresses and registers."""
        multicast = one.op == "bulk.load" and one.number
        near = one.mbarrier is None or one.mbarrier.rank is None
        return {
            "q": _qualifiers(one),
            "s": self._space(one),
            "vec": f".v{one.vector}" if one.vector > 1 else "",
            "t": _TYPES.get(one.size, ""),
            "v": str(one.value),
            "n": str(one.number),
            "threads": str(one.threads),
            "mask": hex(one.number or (sum(1 << lane for lane in lanes) if lanes else 0xFFFFFFFF)),
            "count": f", {one.number}" if one.number > 1 else "",
            "qualifier": f".{one.qualifier}" if one.qualifier else "",
            "bytes": str(one.bytes),
            "size": str(one.size),
            "multicast": ".multicast::cluster" if multicast else "",
            "ctas": ", %mask" if multicast else "",
            "bars": "shared::cta" if near else "shared::cluster",
        }

    def _operand(
        self, lines: list[str], one: Instruction, operand: Operand, lanes: tuple[int, ...], register: str
    ) -> str:
        """An address, or the tensor map in its place."""
        buffer = self.program.buffers.get(operand.name)
        if one.qualifier == "tensor" and buffer is not None and buffer.space == "global":
            lines.append(f"    mov.u32 %x, {operand.offset // 4};")
            return f"%map_{operand.name}"
        return self._address(lines, operand, lanes, register)

    def _space(self, one: Instruction) -> str:
        if one.to is None:
            return ""
        if self.program.buffers[one.to.name].space == "global":
            return ".global"
        return ".shared::cta" if one.to.rank is None else ".shared::cluster"

    def _registers(self, one: Instruction, lanes: int) -> tuple[str, list[str]]:
        """The register operand, and instructions that fill it: lanes of one store write different values."""
        family = {1: "%h", 2: "%h", 8: "%d0"}.get(one.size, "%b0")
        if one.vector > 1:
            prefix = "%d" if one.size == 8 else "%b"
            return "{" + ", ".join(f"{prefix}{n}" for n in range(one.vector)) + "}", []
        before = []
        if one.op in ("st", "st.async", "red.async"):
            kind = {"%h": "u16", "%d0": "u64", "%b0": "u32"}[family]
            before = [f"    mov.{kind} {family}, {one.value};"]
            if one.op == "st" and lanes > 1 and family == "%b0":
                before = ["    mov.u32 %b0, %lane;"]
        if one.op == "bulk.load" and one.number:
            before = [f"    mov.u16 %mask, {one.number};"]
        return family, before

    def _address(self, lines: list[str], operand: Operand, lanes: tuple[int, ...], register: str) -> str:
        buffer = self.program.buffers.get(operand.name)
        tail = f"+{operand.offset}" if operand.offset else ""
        if buffer is not None and buffer.space == "global":
            if not operand.stride:
                return f"%g_{operand.name}{tail}"
            lines.append(f"    mad.wide.u32 %g, %lane, {operand.stride}, %g_{operand.name};")
            return f"%g{_signed(operand.offset - operand.stride * lanes[0])}"
        base = operand.name
        if operand.rank is not None:
            key = (operand.name, operand.rank)
            base = self._mapped.setdefault(key, f"%m{len(self._mapped)}")
        if not operand.stride:
            return base + tail
        if operand.rank is None:
            lines.append(f"    mov.u32 {register}, {base};")
            base = register
        lines.append(f"    mad.lo.u32 {register}, %lane, {operand.stride}, {base};")
        return register + _signed(operand.offset - operand.stride * lanes[0])


def _tensor_copies(program: Program) -> list[Instruction]:
    return [s.instruction for _, _, s in program.statements() if s.instruction.qualifier == "tensor"]


def _signed(offset: int) -> str:
    return f"{offset:+d}" if offset else ""


def _qualifiers(one: Instruction) -> str:
    return "".join(f".{word}" for word in (one.sem, one.scope) if word)


def to_ptx(program: Program) -> Printed:
    """Print ``program``: entry ``k``, a pointer for each global buffer, then the tensor maps."""
    return Printed(program)
