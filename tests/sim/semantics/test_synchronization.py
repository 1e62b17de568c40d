"""What only orders or takes time: fences, sleeping, events, dependent launches, the register budget, brkpt."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import ir
from pyptx.isa import Match, all_forms, variants
from pyptx.sim.code.semantic import semantic_of
from tests.sim.build import Kernel

HEAD = """
.shared b8 box[256] 16
.reg u32 t s x v
.reg u64 o
.reg pred p
mov.u32 t, %tid.x
mov.u32 s, box
mad.lo.u32 s, t, 4, s
mad.wide.u32 o, t, 4, out
add.u32 v, t, 7
st.shared.u32 [s], v
"""
TAIL = """
bar.sync 0
xor.b32 x, t, 33
mov.u32 s, box
mad.lo.u32 s, x, 4, s
ld.shared.u32 v, [s]
st.global.u32 [o], v
ret
"""


def unharmed(line: str, target: str = "sm_100a") -> None:
    """The line changes nothing: not for whole warps, not for one lane, not under a guard."""
    for around in (
        line,
        f"setp.eq.u32 p, t, 9\n@p {line}",
        f"setp.ne.u32 p, t, 9\n@p bra PAST\n{line}\nPAST:",
    ):
        out = np.zeros(64, np.uint32)
        Kernel(HEAD + around + TAIL, "out:u64", target=target).clean(out, block=64)
        assert out.tolist() == [(t ^ 33) + 7 for t in range(64)], around


FENCES = [
    match
    for form in all_forms()
    if form.id.startswith(("fence", "membar")) and form.id != "fence.proxy.tensormap.acquire"
    for match in variants(form)
]


def test_every_fence_is_modeled_as_order() -> None:
    for match in FENCES:
        meaning = semantic_of(match.form.id)
        assert meaning is not None and meaning.fidelity == "ordering", match.name


@pytest.mark.parametrize("match", FENCES[::3], ids=lambda match: match.name)
def test_fences(match: Match) -> None:
    unharmed(match.name)


def test_a_fence_of_a_tensor_map_names_bytes_that_exist() -> None:
    text = "fence.proxy.tensormap::generic.acquire.gpu [out], 128\n"
    kernel = Kernel(HEAD + text + TAIL, "out:u64")
    assert kernel.run(np.zeros(64, np.uint32), block=64).verdict == "clean"
    (found,) = kernel.run(np.zeros(16, np.uint32), block=64).findings
    assert found.rule.name == "out-of-bounds" and "128 bytes" in found.message


@pytest.mark.parametrize(
    "line",
    ["nanosleep.u32 100", "nanosleep.u32 t", "pmevent 3", "pmevent.mask 0xff", "griddepcontrol.wait",
     "griddepcontrol.launch_dependents"],
)  # fmt: skip
def test_what_takes_time_alone(line: str) -> None:
    unharmed(line)


SIXTY_FOUR = (ir.Directive("maxnreg", (64,)),)


def test_setmaxnreg_is_for_the_whole_warp() -> None:
    out = np.zeros(128, np.uint32)
    head = HEAD.replace("box[256]", "box[512]")
    for action in ("inc", "dec"):
        line = f"setmaxnreg.{action}.sync.aligned.u32 64"
        Kernel(head + line + TAIL, "out:u64", directives=SIXTY_FOUR).clean(out, block=128)
        assert out.tolist() == [(t ^ 33) + 7 for t in range(128)]
        text = head + f"setp.eq.u32 p, t, 9\n@p {line}" + TAIL
        kernel = Kernel(text, "out:u64", directives=SIXTY_FOUR)
        (found,) = kernel.run(out, block=128).findings
        assert found.rule.name == "divergent-collective"


def test_a_sleeping_loop_ends_when_somebody_stores() -> None:
    body = """
    setp.ge.u32 p, t, 32
    @p bra WAIT
    mov.u32 x, 1
    setp.eq.u32 p, t, 0
    @p st.relaxed.cta.shared.u32 [box+200], x
    bra DONE
    WAIT:
    nanosleep.u32 20
    ld.relaxed.cta.shared.u32 x, [box+200]
    setp.eq.u32 p, x, 0
    @p bra WAIT
    DONE:
    st.global.u32 [o], x
    ret
    """
    first = "mov.u32 x, 0\nsetp.eq.u32 p, t, 0\n@p st.shared.u32 [box+200], x\nbar.sync 0\n"
    for schedule, seed in (("eager", 0), ("late", 0), ("random", 1), ("random", 2)):
        out = np.zeros(64, np.uint32)
        kernel = Kernel(HEAD.replace("st.shared.u32 [s], v", "") + first + body, "out:u64")
        kernel.clean(out, block=64, schedule=schedule, seed=seed)
        assert out.tolist() == [1] * 64


def test_clocks_go_on_while_a_thread_sleeps() -> None:
    text = ".reg u64 o c d\nmov.u64 c, %globaltimer\n{sleep}\nmov.u64 d, %globaltimer\nsub.u64 d, d, c\nst.global.u64 [out], d\nret"
    out = np.zeros(1, np.uint64)
    Kernel(text.format(sleep="nanosleep.u32 100000"), "out:u64").clean(out, block=32)
    assert out[0] >= 100000
    Kernel(text.format(sleep=""), "out:u64").clean(out, block=32)
    assert out[0] < 1000


def test_brkpt_ends_the_kernel() -> None:
    kernel = Kernel(HEAD + "setp.eq.u32 p, t, 99\n@p brkpt" + TAIL, "out:u64")
    kernel.clean(np.zeros(64, np.uint32), block=64)
    (found,) = (
        Kernel(HEAD + "brkpt // here" + TAIL, "out:u64").run(np.zeros(64, np.uint32), block=64).findings
    )
    assert found.rule.name == "trap" and "debugger" in found.message
