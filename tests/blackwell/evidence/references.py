"""The projects whose kernels are evidence, and how strong the evidence is."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["REFERENCES", "Grade", "Reference"]


class Grade(enum.IntEnum):
    """How strong a project's evidence is; the smaller, the stronger."""

    RAN = 1
    EMITTED = 2
    WRITTEN = 3
    HOPPER = 4

    @property
    def words(self) -> str:
        """What the grade means."""
        return _WORDS[self]


_WORDS = {
    Grade.RAN: "ran on a B200, with published figures",
    Grade.EMITTED: "emitted by a shipping compiler",
    Grade.WRITTEN: "written in a shipping library's source",
    Grade.HOPPER: "ran on an H200, in tests of this tree",
}


@dataclass(frozen=True)
class Reference:
    """A project whose kernels were read or run.

    Attributes:
        title: its name, the version that was read, and which kernels.
        compiler: what made the PTX.
        grade: how strong its evidence is.
        why: where the grade comes from.
    """

    title: str
    compiler: str
    grade: Grade
    why: str

    @property
    def row(self) -> str:
        """The row of the table in docs/evidence.md."""
        return f"| {self.title} | {self.compiler} | {self.grade.words.partition(',')[0]} | {self.why} |"


#: By the name in the table of facts.
REFERENCES = {
    "learn_cuda": Reference(
        "learn-cuda 1454f8b, `02e_matmul_sm100`, v1a to v7c",
        "nvcc 13.5; copies, barriers and tcgen05 are inline PTX",
        Grade.RAN,
        "the README beside the kernels has their rates on a B200",
    ),
    "tilus": Reference(
        "Tilus 9a22de0a, `examples/blackwell_matmul`, V0 to V6, 15 schedules",
        "Tilus 0.2.0, nvcc 13.5",
        Grade.RAN,
        "the tutorial has the rates of V0 to V6 on a B200; its tuner times every schedule of the spaces that these are of",
    ),
    "cute_dsl": Reference(
        "CUTLASS 7107b0553, `examples/python/CuTeDSL`, for Blackwell",
        "CuTe DSL 4.8.1",
        Grade.EMITTED,
        "39 dense GEMMs, tutorials, primitives and one attention, run; of 67 modules the texts alone",
    ),
    "triton": Reference(
        "kernels in Triton and Gluon, `tests/sim/compiled/blackwell` and `tests/blackwell/evidence/triton_products.py`",
        "Triton 3.9.0",
        Grade.EMITTED,
        "sources of this tree: the compiler chose the instructions and the layouts, in Gluon's kernels the instructions alone",
    ),
    "deep_gemm": Reference(
        "DeepGEMM 54e2261, products of bf16 and e4m3 for SM100",
        "nvcc 13.0; copies, barriers and tcgen05 are inline PTX",
        Grade.WRITTEN,
        "7 texts; its heuristics choose these tiles, or neighbors of them",
    ),
    "cutlass": Reference(
        "CUTLASS 7107b0553, examples 70 and 72, `examples/cute/tutorial/blackwell`",
        "nvcc 13.0; copies, barriers and tcgen05 are inline PTX",
        Grade.WRITTEN,
        "8 texts; NVIDIA's examples for SM100",
    ),
    "h200": Reference(
        "`tests/conformance` and `tests/sim/compiled` of this tree",
        "by hand; nvcc, Triton",
        Grade.HOPPER,
        "results of an H200 are in the tree ([conformance](conformance.md))",
    ),
}
