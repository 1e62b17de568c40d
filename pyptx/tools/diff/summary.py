"""Summarizes both sides: counts of instructions, resources that ptxas reports, and the machine code."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache

from ...core.errors import PyptxError, ToolNotFoundError
from ...core.records import dataclass
from ...ir import Instruction, Module
from ...isa.table import chapter_of, spelled
from ...toolchain import PtxRejectedError, Resources, assemble, disassemble
from .canonical import spelling

__all__ = ["Counts", "MachineCode", "Summary", "count", "machine", "summarize"]


@dataclass(frozen=True)
class Counts:
    """Numbers of instructions of a module.

    Attributes:
        instructions: all instructions.
        categories: instructions by chapter of the instruction table.
        barriers: `bar`, `barrier` and `mbarrier` instructions.
        copies: bulk and tensor copies (TMA).
        mma: matrix multiplications of every generation.
    """

    instructions: int = 0
    categories: dict[str, int] = field(default_factory=dict)
    barriers: int = 0
    copies: int = 0
    mma: int = 0


@dataclass(frozen=True)
class MachineCode:
    """The resources and the machine code of a module, from ptxas and nvdisasm.

    Attributes:
        resources: the resources of each function.
        sass: number of machine instructions by opcode, without NOP; None if not known.
        code: name of each function -> a digest of its machine code.
        missing: the reason if facts are missing: a tool is not installed, or ptxas refused the text. In the
            latter case, the following lines are the first errors of ptxas.
    """

    resources: tuple[Resources, ...] = ()
    sass: dict[str, int] | None = None
    code: dict[str, str] = field(default_factory=dict)
    missing: str = ""


@dataclass(frozen=True)
class Summary:
    """Instruction counts of A and of B.

    ``machines`` has resources and machine code of both; None if the caller did not ask for them.
    """

    a: Counts
    b: Counts
    machines: tuple[MachineCode, MachineCode] | None = None

    def same_code(self, a: str, b: str) -> bool | None:
        """True if function ``a`` of A and ``b`` of B have the same machine code; None if not known."""
        if self.machines is None:
            return None
        one, other = self.machines[0].code.get(a), self.machines[1].code.get(b)
        return None if one is None or other is None else one == other


#: Opcodes of barriers.
_BARRIERS = ("bar", "barrier", "mbarrier")
_MMA_WORDS = {"mma", "mma_async"}


def count(module: Module) -> Counts:
    """Count the instructions of all functions of ``module``."""
    categories: Counter[str] = Counter()
    barriers = copies = mma = total = 0
    for function in module.functions:
        for instruction in function.instructions():
            total += 1
            categories[_category(instruction.opcode, instruction.modifiers)] += 1
            barriers += instruction.opcode in _BARRIERS
            copies += _is_copy(instruction)
            mma += bool(_MMA_WORDS.intersection((instruction.opcode, *instruction.modifiers[:1])))
    return Counts(total, dict(categories.most_common()), barriers, copies, mma)


def _is_copy(instruction: Instruction) -> bool:
    """True for ``cp.async.bulk`` and ``cp.reduce.async.bulk`` copies, but not for their commit and wait."""
    words = instruction.modifiers
    return (
        instruction.opcode == "cp"
        and "bulk" in words
        and not {"commit_group", "wait_group"}.intersection(words)
    )


@lru_cache(maxsize=65536)
def _category(opcode: str, modifiers: tuple[str, ...]) -> str:
    """Return the name of the instruction table's chapter for an instruction, for display."""
    found = spelled(opcode, spelling(opcode, modifiers))
    return chapter_of(found[0].form.id).replace("_", " ") if found else "unknown"


def summarize(
    modules: tuple[Module, Module], texts: tuple[Callable[[], str], Callable[[], str]] | None = None
) -> Summary:
    """Count both modules. With ``texts``, functions that return their PTX, also run ptxas and nvdisasm."""
    counts = count(modules[0]), count(modules[1])
    return Summary(*counts, None if texts is None else (machine(texts[0]()), machine(texts[1]())))


def machine(text: str) -> MachineCode:
    """Assemble and disassemble ``text``.

    If a tool is missing or ptxas refuses the text, no error is raised: ``missing`` says so.
    """
    try:
        assembly = assemble(text)
    except PtxRejectedError as error:
        return MachineCode(missing=_refusal(error))
    except PyptxError as error:
        return MachineCode(missing=error.summary)
    try:
        listing = disassemble(assembly.cubin)
    except ToolNotFoundError as error:
        return MachineCode(assembly.resources, missing=error.summary)
    return MachineCode(assembly.resources, _mix(listing), _digests(listing))


#: Number of errors of ptxas that a report shows.
_ERRORS = 3


def _refusal(error: PtxRejectedError) -> str:
    """Return the report of a module that ptxas refuses: a summary in one line, then the first errors."""
    errors = [message for message in error.messages if message.is_error]
    shown = [f"line {m.line}: {m.text}" if m.line is not None else m.text for m in errors[:_ERRORS]]
    if len(errors) > len(shown):
        shown.append(f"... {len(errors) - len(shown)} more: pyptx check shows them")
    return "\n".join([error.summary, *shown])


#: `/*0010*/  @!P0 IADD3.X R1, ...`: the address, a predicate, the opcode before its first dot.
_SASS = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)
_SECTION = re.compile(r"^\t\.section\t\.text\.([^,]+),.*$", re.MULTILINE)
#: A label of nvdisasm; its number counts through the whole file.
_LABEL = re.compile(r"\.L_x_\d+")


def _mix(listing: str) -> dict[str, int]:
    found = Counter(_SASS.findall(listing))
    del found["NOP"]
    return dict(found.most_common())


def _renumbered(numbers: dict[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda label: numbers.setdefault(label[0], f".L{len(numbers)}")


def _digests(listing: str) -> dict[str, str]:
    """Return a digest of each function's text by nvdisasm; it does not depend on the numbers of labels."""
    found = {}
    _, *parts = _SECTION.split(listing)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        numbers: dict[str, str] = {}
        code = body.partition(f".text.{name}:")[2]
        code = _LABEL.sub(_renumbered(numbers), code)
        lines = [line.strip() for line in code.splitlines() if line.strip().startswith(("/*", ".L"))]
        found[name] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return found
