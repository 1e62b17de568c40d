"""Which accesses to memory ptxas makes one of.

Several loads, or stores, of neighboring words from one base become one wider instruction. The banks of shared
memory, and L1, then see one access for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...core.records import dataclass
from ...core.types import TYPES
from ...flow import accesses, control_flow
from ...ir import Address, Function, Instruction, Register
from ...timing.access_order import Merged
from .order import FIXED

__all__ = ["bytes_of", "merged_accesses", "width_of"]

_OPCODES = frozenset({"ld", "st"})
#: State spaces whose accesses the timed machine charges.
_SPACES = ("shared", "global")
_WIDTHS = {"128": 16, "64": 8, "U8": 1, "S8": 1, "U16": 2, "S16": 2}


@dataclass(frozen=True, slots=True)
class _Word:
    """An access of a statement: its offset from the base, and bytes of its machine instruction, or 0."""

    statement: int
    offset: int
    width: int


def width_of(opcode: str) -> int:
    """Return how many bytes of a lane a machine instruction accesses, by its opcode with modifiers."""
    return next((_WIDTHS[part] for part in opcode.split(".")[1:] if part in _WIDTHS), 4)


def bytes_of(instruction: Instruction) -> int:
    """Return how many bytes of a lane a PTX load or store accesses."""
    many = max((int(each[1]) for each in instruction.modifiers if each in ("v2", "v4", "v8")), default=1)
    sizes = [TYPES[each].nbytes for each in instruction.modifiers if each in TYPES]
    return many * sizes[-1] if sizes else 0


def merged_accesses(function: Function, widths: Mapping[int, int]) -> dict[int, Merged]:
    """Return the statements of a function that share a machine instruction with others.

    Args:
        function: the PTX function.
        widths: bytes of the machine instruction that accesses memory, for each statement that has one.
    """
    found: dict[int, Merged] = {}
    for block in control_flow(function).blocks:
        for opcode, words in _rows(block.instructions, widths):
            wide = [word for word in words if word.width]
            if len(wide) == len(words):
                continue
            # Bases are aligned to the widest instruction but for a constant.
            largest = max((word.width for word in wide), default=0)
            groups = max(
                (_groups(words, shift) for shift in range(0, largest, 4)),
                key=lambda each: sum(map(len, each)),
                default=[],
            )
            for group in groups:
                numbers = [word.statement for word in group]
                stands = min(numbers) if opcode == "ld" else max(numbers)
                merged = Merged(stands, max(word.width for word in group))
                found.update(dict.fromkeys(numbers, merged))
    return found


def _groups(words: Sequence[_Word], shift: int) -> list[list[_Word]]:
    """Return the words that one machine instruction accesses, with those that have none themselves."""
    found = []
    for wide in words:
        if not wide.width:
            continue
        begin = (wide.offset + shift) // wide.width * wide.width
        inside = [word for word in words if begin <= word.offset + shift < begin + wide.width]
        if len(inside) > 1 and sum(word.width > 0 for word in inside) == 1:
            found.append(inside)
    return found


def _rows(
    instructions: Sequence[tuple[int, Instruction]], widths: Mapping[int, int]
) -> Iterator[tuple[str, list[_Word]]]:
    """Yield the accesses from one base in a block, of one opcode, while the base has one value."""
    open_rows: dict[tuple[str, str, str], list[_Word]] = {}
    for number, instruction in instructions:
        _, written = accesses(instruction)
        names = {register.name for register in written}
        address = next((each for each in instruction.operands if isinstance(each, Address)), None)
        if instruction.opcode in _OPCODES and instruction.guard is None and address is not None:
            space = next((each for each in _SPACES if each in instruction.modifiers), None)
            base = address.base
            if space is not None and "volatile" not in instruction.modifiers:
                name = base.name if isinstance(base, Register) else str(base)
                row = open_rows.setdefault((instruction.opcode, space, name), [])
                row.append(_Word(number, address.offset, widths.get(number, 0)))
        fixed = instruction.opcode in FIXED
        for key in [key for key in open_rows if fixed or key[2] in names]:
            yield key[0], open_rows.pop(key)
    for (opcode, _, _), row in open_rows.items():
        yield opcode, row
