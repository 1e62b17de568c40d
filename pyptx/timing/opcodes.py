"""Which pipe a machine instruction occupies for how long, and when its result is there.

Owns the classes of the opcodes of sm_90 and sm_100 (CUDA Binary Utilities, tables of the instruction sets of
Hopper and Blackwell) and the constants of a GPU that each class reads. ptxas writes the latency of most
instructions into the code, as stalls; a class has a latency where the end of the instruction is signaled by
a scoreboard barrier. Instructions whose waits the timed machine models, such as loads and ``SYNCS``, have
none: ``elsewhere``.

Two latencies stand for others that no source gives: results of S2R, fp64 and of opcodes that are not listed
take as long as those of MUFU, if a barrier signals them. Opcodes that are not listed occupy the ALU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from math import prod

from ..core.records import dataclass
from .constants import Gpu

__all__ = [
    "FMA",
    "HEAVY",
    "HMMA",
    "REGISTER_BANKS",
    "OpcodeClass",
    "Pipes",
    "class_of",
    "is_known",
    "multiply_adds",
]

#: The pipe of multiply-adds, the half of it that alone takes integers and pairs of halves, and the tensor
#: core as warps use it.
FMA, HEAVY, HMMA = "fma", "fmaheavy", "hmma"
#: The banks of registers with even and with odd numbers.
REGISTER_BANKS = "even registers", "odd registers"

#: Lanes of a warp.
_LANES = 32
#: Cycles behind a branch, and of the code of a store and a fence, by ptxas's control codes.
_BRANCH, _FENCED = 5.0, 4.0


@dataclass(frozen=True, slots=True)
class OpcodeClass:
    """How machine instructions of a kind are executed.

    Attributes:
        pipe: the pipe of an SM sub-partition that they occupy; empty for none beside the issue slot.
        lanes: the constant with the lanes that all pipes of an SM take in a cycle.
        latency: the constant with the cycles until a barrier signals the result.
        reads: the constant with the cycles until a barrier signals that the operands have been read, after
            which another instruction may write their registers; empty for none.
        elsewhere: whether the timed machine models the wait for the result, so that it takes no time here.
        holds: the constant with the cycles for which the warp issues nothing else; empty for none.
        less: cycles, or a constant of cycles, that the constants of this class contain, and others take.
        stores: the constant with the cycles until a fence behind it finds what it stores to shared memory.
        fences: whether it waits for such stores of its warp.
        passes: how often the instruction goes through its pipe.
        half: the constant with the lanes of the half of its pipe that alone executes it; empty if both do.
    """

    pipe: str = ""
    lanes: str = ""
    latency: str = "mufu.latency_clk"
    reads: str = "lsu.read_clk"
    elsewhere: bool = False
    holds: str = ""
    less: str | float = 0.0
    stores: str = ""
    fences: bool = False
    passes: float = 1.0
    half: str = ""


_KINDS = {
    "fma": OpcodeClass(FMA, "fma.lanes_per_clk", "fma.latency_clk"),
    # Two results a lane.
    "fma_pair": OpcodeClass(FMA, "fma.lanes_per_clk", "fma.latency_clk", passes=2.0),
    "imad": OpcodeClass(FMA, "fma.lanes_per_clk", "alu.latency_clk", half="fmaheavy.lanes_per_clk"),
    "half": OpcodeClass(FMA, "fma.lanes_per_clk", "fma.latency_clk", half="fmaheavy.lanes_per_clk"),
    "alu": OpcodeClass("alu", "alu.lanes_per_clk", "alu.latency_clk"),
    "mufu": OpcodeClass("mufu", "mufu.lanes_per_clk", "mufu.latency_clk", "mufu.read_clk"),
    # By ncu, the ALU packs conversions, and the pipe of MUFU has the others.
    "pack": OpcodeClass("alu", "cvt.lanes_per_clk", "mufu.latency_clk"),
    "convert": OpcodeClass("mufu", "mufu.lanes_per_clk", "mufu.latency_clk"),
    "fp64": OpcodeClass("fp64", "fp64.lanes_per_clk"),
    "shfl": OpcodeClass("shfl", "shfl.lanes_per_clk", "shfl.latency_clk"),
    "uniform": OpcodeClass("uniform", "alu.lanes_per_clk", "alu.latency_clk"),
    "special": OpcodeClass(),
    "constant": OpcodeClass(latency="lds.latency_clk"),
    "local": OpcodeClass(latency="ldg.latency_l1_clk"),
    "control": OpcodeClass(latency="alu.latency_clk"),
    "elsewhere": OpcodeClass(elsewhere=True),
    "engine": OpcodeClass(reads="", elsewhere=True),
    "tensor": OpcodeClass(HMMA, latency="shfl.latency_clk"),
    "texture": OpcodeClass(latency="l2.latency_clk"),
    "sts": OpcodeClass(elsewhere=True, stores="fence.behind_store_clk", less=_FENCED),
    "stsm": OpcodeClass(elsewhere=True, stores="fence.behind_stmatrix_clk"),
    "syncs": OpcodeClass(latency="mbarrier.arrive_clk"),
    "warpsync": OpcodeClass(holds="bar.warp_sync_clk"),
    "bsync": OpcodeClass(holds="sm.bsync_clk"),
    "setmaxnreg": OpcodeClass(holds="sm.setmaxnreg_clk"),
    "membar": OpcodeClass(latency="", reads="fence.proxy_async_clk", fences=True, less=1.0),
    "fence": OpcodeClass(latency="fence.proxy_async_clk"),
}
_UNLISTED = OpcodeClass("alu", "alu.lanes_per_clk")
#: The opcodes of each kind.
_OPCODES = """
fma: FADD FADD32I FFMA FFMA32I FMUL FMUL32I FSWZADD FHADD FHFMA
half: HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I
fma_pair: FADD2 FFMA2 FMUL2
imad: IMAD IMUL IMUL32I IDP IDP4A
alu: FCHK FMNMX FMNMX3 FSEL FSET FSETP HMNMX2 HSET2 HSETP2 VHMNMX BMSK IABS IADD IADD2 IADD3 IADD32I
    IADD64 IMNMX ISCADD ISCADD32I ISETP LEA LOP LOP3 LOP32I SHF SHL SHR VABSDIFF VABSDIFF4 VIADD VIADD2
    VIADDMNMX VIMNMX VIMNMX3 MOV MOV32I MOV64IUR PRMT SEL SEL64 SGXT PLOP3 PSETP P2R R2P VOTE CS2R I2FP
    I2I I2IP LEPC ELECT RPCMOV BMOV MOVM
mufu: MUFU BREV FLO POPC
pack: F2FP F2IP
convert: F2F F2I FRND I2F
fp64: DADD DFMA DMUL DSETP DMNMX
shfl: SHFL MATCH REDUX CREDUX
uniform: R2UR UBMSK UBREV UCLEA UFADD UFFMA UFMUL UFMNMX UFSEL UFSET UFSETP UF2F UF2FP UF2I UF2IP UFRND
    UI2F UI2FP UI2I UI2IP UIABS UFLO UIADD3 UIMAD UIMNMX UISETP ULEA ULEPC ULOP ULOP3 ULOP32I UMOV UP2UR
    UPLOP3 UPOPC UPRMT UPSETP UR2UP UR2R USEL USGXT USHF USHL USHR UVIADD UVIMNMX UVIMNMX3 VOTEU UIADD64
    USEL64
special: S2R S2UR B2R R2B GETLMEMBASE SETLMEMBASE SETCTAID QSPC PMTRIG UVIRTCOUNT
constant: LDC LDCU ULDC
local: LDL
control: BPT BRA BREAK BRX BRXU BSSY CALL ENDCOLLECTIVE EXIT JMP JMX JMXU KILL NANOSLEEP NOP PREEXIT
    RET YIELD DEPBAR LDGDEPBAR ACQBULK ACQSHMINIT STL UCGABAR_ARV UCGABAR_WAIT WARPGROUP WARPGROUPSET
    USETSHMSZ ERRBAR CGAERRBAR CCTL CCTLL CCTLT
sts: STS
stsm: STSM
elsewhere: LD LDG LDGMC LDGSTS LDS LDSM ST STG STAS ATOM ATOMG ATOMS RED REDG REDAS UREDGR USTGR
engine: BAR UBLKCP UBLKPF UBLKRED UTMACCTL UTMACMDFLUSH UTMALDG UTMALST UTMAPF UTMAREDG UTMASTG
    UGETNEXTWORKID UMEMSETS UTCATOMSWS UTCBAR UTCCP UTCHMMA UTCIMMA UTCMXQMMA UTCOMMA UTCQMMA UTCSHIFT
    LDTM STTM LDT STT BGMMA HGMMA IGMMA QGMMA
tensor: HMMA IMMA DMMA BMMA QMMA OMMA
texture: TEX TLD TLD4 TMML TXD TXQ SUATOM SULD SURED SUST
syncs: SYNCS SYNCSU ARRIVES
warpsync: WARPSYNC
bsync: BSYNC
setmaxnreg: USETMAXREG
membar: MEMBAR
fence: FENCE
"""


def _listed() -> dict[str, OpcodeClass]:
    found: dict[str, OpcodeClass] = {}
    kind = _UNLISTED
    for word in _OPCODES.split():
        if word.endswith(":"):
            kind = _KINDS[word[:-1]]
        else:
            found[word] = kind
    return found


_CLASSES = _listed()
#: Opcodes whose modifiers change the class: a pattern of the whole opcode, and the class.
_SPECIAL_CASES: tuple[tuple[re.Pattern[str], OpcodeClass], ...] = (
    # Products of 64 bits go through their half of the pipe twice.
    (
        re.compile(r"IMAD\.(WIDE|HI)"),
        OpcodeClass(FMA, "fma.lanes_per_clk", "alu.latency_clk", passes=2.0, half="fmaheavy.lanes_per_clk"),
    ),
    # The tensor core's part executes these.
    (re.compile(r"H(FMA|ADD|MUL)2\.MMA"), OpcodeClass(latency="fma.latency_clk")),
    (re.compile(r"SYNCS\.PHASECHK"), OpcodeClass(latency="", holds="mbarrier.test_clk", less=_BRANCH)),
    (re.compile(r"SYNCS\.ARRIVE"), OpcodeClass(latency="mbarrier.arrive_clk", holds="mbarrier.arrive_clk")),
    (
        re.compile(r"MEMBAR\..*(GPU|SYS|VC)"),
        OpcodeClass(latency="", holds="fence.proxy_async_all_clk", less="fence.proxy_async_clk"),
    ),
    (
        re.compile(r"CCTL\.IVALL"),
        OpcodeClass(latency="", holds="fence.gpu_clk", less="fence.proxy_async_all_clk"),
    ),
)
_F64_BITS = 64
#: Shape of an mma as two or three numbers in the opcode, with the operands' type: HMMA.16816.F32.BF16.
_SHAPE = re.compile(r"\.(8|16)x?(8)x?(\d{1,3})\b")


@cache
def class_of(opcode: str) -> OpcodeClass:
    """Return the class of an opcode with its modifiers, such as ``MUFU.EX2``."""
    for pattern, found in _SPECIAL_CASES:
        if pattern.match(opcode):
            return found
    return _CLASSES.get(opcode.partition(".")[0], _UNLISTED)


def is_known(opcode: str) -> bool:
    """True if the opcode is listed."""
    return opcode.partition(".")[0] in _CLASSES


def _shape_of(opcode: str) -> tuple[int, int, int]:
    """Return M, N and K of an mma, by its opcode."""
    shape = _SHAPE.search(opcode)
    return (16, 8, 16) if shape is None else (int(shape[1]), int(shape[2]), int(shape[3]))


def multiply_adds(opcode: str) -> int:
    """Return the multiply-adds of an mma that its opcode spells, those of zeros too; 0 for others."""
    return prod(_shape_of(opcode)) if class_of(opcode).pipe == HMMA else 0


def _bits_of(opcode: str) -> int:
    """Return the size of the operands' type of an mma."""
    name, _, modifiers = opcode.partition(".")
    if name == "DMMA":
        return _F64_BITS
    if name == "BMMA":
        return 1
    if "TF32" in modifiers:
        return 32
    if re.search(r"[SU]4\b", modifiers) or name == "OMMA":
        return 4
    return 8 if name in ("IMMA", "QMMA") else 16


class Pipes:
    """The pipes of a sub-partition of one GPU: for how long instructions occupy them, and their latencies.

    Args:
        gpu: the constants.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._parts = gpu.value("sm.schedulers")
        self._occupied: dict[str, Mapping[str, float]] = {}

    def occupied(self, opcode: str) -> Mapping[str, float]:
        """Return the cycles of the pipes that an instruction of a warp occupies; empty for none."""
        found = self._occupied.get(opcode)
        if found is None:
            found = self._occupied[opcode] = self._occupy(opcode)
        return found

    def _occupy(self, opcode: str) -> Mapping[str, float]:
        kind = class_of(opcode)
        if kind.pipe == HMMA:
            return {kind.pipe: self._product(opcode)}
        if not kind.pipe:
            return {}
        warps = kind.passes * _LANES * self._parts
        found = {kind.pipe: warps / self._gpu.value(kind.lanes)}
        if kind.half:
            found[HEAVY] = warps / self._gpu.value(kind.half)
        return found

    def _product(self, opcode: str) -> float:
        """Return the cycles of the tensor core for an mma of a warp.

        It takes as many bytes of A and B in a cycle, whatever their type but f64, and 8 rows as long as 16.
        """
        _, n, k = _shape_of(opcode)
        flops = 2.0 * 16 * n * k * self._parts
        bits = _bits_of(opcode)
        if bits == _F64_BITS:
            return flops / self._gpu.value("dmma.flops_per_clk")
        if ".SP" in opcode:  # half of A is zero, and takes no time
            flops /= 2
        full = flops * bits / 16 / self._gpu.value("hmma.flops_per_clk_16bit")
        return max(self._gpu.value("hmma.least_clk"), full)

    def latency(self, opcode: str) -> float:
        """Return the cycles from the issue of an instruction to the signal of its barrier."""
        kind = class_of(opcode)
        return 0.0 if kind.elsewhere else self._value(kind.latency, kind.less)

    def reading(self, opcode: str) -> float:
        """Return the cycles from the issue of an instruction to the signal that its operands are read."""
        kind = class_of(opcode)
        return self._value(kind.reads, kind.less)

    def held(self, opcode: str) -> float:
        """Return the cycles for which the warp issues nothing else, beyond the stall in the code."""
        kind = class_of(opcode)
        return self._value(kind.holds, kind.less)

    def storing(self, opcode: str) -> float:
        """Return the cycles from the issue of a store to shared memory until a fence finds it, or 0."""
        kind = class_of(opcode)
        return self._value(kind.stores, kind.less)

    def _value(self, name: str, less: str | float = 0.0) -> float:
        if not name:
            return 0.0
        return max(0.0, self._gpu.value(name) - (self._gpu.value(less) if isinstance(less, str) else less))
