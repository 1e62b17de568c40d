"""tcgen05: what follows what without a wait, and what does not. Each rule has a twin that breaks it.

PTX ISA #tcgen05-memory-consistency-model-pipelined-instructions. A twin is right under ``eager`` and wrong under
``late`` or some random seed. These tests are about values: twins, and what only this machine orders, run without
the sanitizer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sim.tcgen05.stage import COMMIT, Cells, cells_of, played
from tests.sim.tcgen05.test_kinds import SFA, SFB, f32, idesc, shared
from tests.sim.tcgen05.test_mma import A_AT, B_AT, BASE, Operand, operand

pytestmark = pytest.mark.sample(1)

ALL = [
    ("eager", 0),
    ("late", 0),
    ("starve:mma", 0),
    ("starve:cp", 0),
    *(("random", seed) for seed in range(10)),
]
#: For what goes wrong only if a step is late by more than most schedules make it.
MORE = [*ALL, *(("random", seed) for seed in range(10, 16))]
#: Fences and a barrier between two threads.
FENCED = ("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
BARE = ("", "")

generator = np.random.default_rng(1)
LEFT, RIGHT = generator.integers(-4, 5, (128, 16)), generator.integers(-4, 5, (32, 16))
WORD = idesc(1, "f16", "f16", 128, 32)
MMA = "tcgen05.mma.cta_group::1.kind::f16 [{d}], a, b, v, {flag}{scale}"


def mma(flag: str, scale: str = "", d: str = "d") -> str:
    return MMA.format(d=d, flag=flag, scale=scale)


def outcomes(code: str, operands: list[Operand], cells: Cells, words: dict[str, int], *, schedules: list[tuple[str, int]] = ALL, **options: Any) -> dict[tuple[str, int], Cells]:  # fmt: skip
    """What tensor memory holds afterwards, under every schedule."""
    found = {}
    for schedule, seed in schedules:
        report, found[schedule, seed] = played(
            code, operands, cells, words, schedule=schedule, seed=seed, **options
        )
        assert report.verdict == "clean", report
    return found


def ordered(found: dict[tuple[str, int], Cells], expected: Cells) -> bool:
    """Whether every schedule gives what is expected; eager must, and what differs must show under late or random."""
    wrong = {name for name, cells in found.items() if not np.array_equal(cells, expected)}
    assert ("eager", 0) not in wrong
    assert not wrong or any(schedule in ("late", "random") for schedule, _ in wrong)
    return not wrong


def products() -> tuple[list[Operand], dict[str, int], NDArray[Any]]:
    A, B = operand(LEFT, "f16", A_AT, "128B", "K", 0), operand(RIGHT, "f16", B_AT, "128B", "K", 0)
    return [A, B], {"a": A.word, "b": B.word, "v": WORD}, (LEFT @ RIGHT.T).astype(np.float64)


# --- mma and mma --------------------------------------------------------------------------------------


@pytest.mark.full
def test_mmas_into_one_accumulator_in_one_thread() -> None:
    operands, words, product = products()
    cells = cells_of()
    found = outcomes(f"{mma('never')}\n{mma('always', ', 3')}\n{mma('always')}", operands, cells, words)
    cells[:, :32] = f32(product * (2 + 1 / 8))
    assert ordered(found, cells)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("between", "kept"), [(FENCED, True), (BARE, False), (("", FENCED[1]), False), ((FENCED[0], ""), False)])  # fmt: skip
def test_mmas_into_one_accumulator_in_two_threads(between: tuple[str, str], kept: bool) -> None:
    """Ordered by a fence on each side of the barrier, and by nothing less."""
    operands, words, product = products()
    cells = cells_of()
    found = outcomes(
        mma("never"), operands, cells, words, then=(*between, mma("always", ", 3")), sanitize=kept
    )
    cells[:, :32] = f32(product * (1 + 1 / 8))
    assert ordered(found, cells) is kept


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.full
def test_an_mma_that_reads_what_another_accumulator_holds(waits: bool) -> None:
    """D of the first is A of the second: only a commit that was waited for orders them."""
    operands, words, product = products()
    ones = operand(np.eye(16)[:, :8], "tf32", B_AT + 8192, "128B", "K", 0)
    code = mma("never") + "\n"
    if waits:
        code += "mbarrier.init.shared::cta.b64 [bar+16], 1\n" + COMMIT.replace("[bar]", "[bar+16]")
        code += "\nW:\nmbarrier.try_wait.parity.shared::cta.b64 q, [bar+16], 0\n@!q bra W\n"
        code += "tcgen05.fence::after_thread_sync\n"
    code += "add.u32 n, tm, 64\ntcgen05.mma.cta_group::1.kind::tf32 [n], [d], c, w, never"
    words |= {"c": ones.word, "w": idesc(1, "tf32", "tf32", 128, 16)}
    cells = cells_of()
    found = outcomes(code, [*operands, ones], cells, words, sanitize=waits)
    cells[:, :32] = f32(product)
    cells[:, 64:80] = f32(product[:, :8] @ np.eye(16)[:, :8].T)
    assert ordered(found, cells) is waits


@pytest.mark.parametrize("second", ["same", "place", "shape"])
def test_products_of_a_thread_write_in_order(second: str) -> None:
    """Two MMAs that overlap: also at another column, or of another N at the same one.

    The manual promises that for one accumulator and shape alone; FlashAttention's kernels for Blackwell need it
    of all, and run there.
    """
    operands, words, product = products()
    cells = cells_of()
    words["w"] = idesc(1, "f16", "f16", 128, 16 if second == "shape" else 32)
    column = 16 if second == "place" else 0
    other = f"add.u32 n, tm, {column}\n" + mma("always", ", 1", "n").replace(" v,", " w,")
    found = outcomes(f"{mma('never')}\n{other}", operands, cells, words, sanitize=second == "same")
    width = 16 if second == "shape" else 32
    before = cells[:, :48].copy().view(np.float32).astype(np.float64)
    before[:, :32] = product
    total = before.copy()
    total[:, column : column + width] = product[:, :width] + before[:, column : column + width] / 2
    columns = max(32, column + width)
    cells[:, :columns] = f32(total[:, :columns])
    assert ordered(found, cells)


# --- cp and mma ---------------------------------------------------------------------------------------

SCALED = f"""
add.u32 n, tm, {SFA}
add.u32 m, tm, {SFB}
tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [d], a, b, v, [n], [m], never
"""
COPY_SCALES = f"add.u32 n, tm, {SFA}\ntcgen05.cp.cta_group::1.32x128b.warpx4 [n], c"


def scales() -> tuple[list[Operand], dict[str, int], Cells, Cells]:
    """Scales of 2 for A in shared memory, of 1 in tensor memory before; what the product with 1 and with 2 is."""
    left, right = np.abs(LEFT).repeat(2, 1) % 4, np.abs(RIGHT).repeat(2, 1) % 4
    A, B = shared(left, "e4m3", A_AT, "32B"), shared(right, "e4m3", B_AT, "32B")
    C = operand(np.full((32, 16), 128, np.uint8), "byte", B_AT + 8192, "none", "K", 0)
    words = {"a": A.word, "b": B.word, "c": C.word, "v": 32 >> 3 << 17 | 1 << 23 | 1 << 27}
    cells = cells_of()
    cells[:, SFA : SFA + 4] = 0x7F7F7F7F
    cells[:, SFB] = 0x7F7F7F7F
    after = cells.copy()
    after[:, SFA : SFA + 4] = 0x80808080
    after[:, :32] = f32((left @ right.T).astype(np.float64))
    return [A, B, C], words, cells, after


@pytest.mark.full
def test_a_copy_of_scales_comes_before_the_mma_behind_it() -> None:
    operands, words, cells, after = scales()
    found = outcomes(COPY_SCALES + SCALED, operands, cells, words)
    after[:, :32] = f32(after[:, :32].view(np.float32) * 2)
    assert ordered(found, after)


@pytest.mark.full
def test_a_copy_of_scales_comes_after_the_mma_before_it() -> None:
    """Not in the manual's list; block-scaled main loops of CUTLASS overwrite the scales like this."""
    operands, words, cells, after = scales()
    assert ordered(outcomes(SCALED + COPY_SCALES, operands, cells, words, sanitize=False), after)


@pytest.mark.parametrize(("between", "kept"), [(FENCED, True), (BARE, False)])
@pytest.mark.full
def test_a_copy_of_another_thread(between: tuple[str, str], kept: bool) -> None:
    operands, words, cells, after = scales()
    found = outcomes(COPY_SCALES, operands, cells, words, then=(*between, SCALED), sanitize=kept)
    after[:, :32] = f32(after[:, :32].view(np.float32) * 2)
    assert ordered(found, after) is kept


# --- shift --------------------------------------------------------------------------------------------

#: A in tensor memory, in the 8 columns that a shift moves.
SHIFT = "add.u32 n, tm, 200\ntcgen05.shift.cta_group::1.down [n]"
FROM_CELLS = "add.u32 n, tm, 200\ntcgen05.mma.cta_group::1.kind::f16 [d], [n], b, v, never"
REFRESH = f"add.u32 n, tm, {200 + (31 << 16)}\ntcgen05.cp.cta_group::1.4x256b [n], c"


def shifting() -> tuple[list[Operand], dict[str, int], Cells, Cells, NDArray[Any]]:
    """Before, after a shift, and A's rows."""
    operands, words, _ = products()
    fresh = operand(np.arange(256).reshape(8, 32).astype(np.uint8), "byte", B_AT + 8192, "32B", "K", 0)
    words["c"] = fresh.word
    cells = cells_of()
    cells[:, 200:208] = LEFT.astype(np.float16).view("<u4")
    after = cells.copy()
    after[0:31, 200:208] = cells[1:32, 200:208]
    return [*operands, fresh], words, cells, after, LEFT.copy()


@pytest.mark.full
def test_a_shift_comes_before_the_mma_behind_it() -> None:
    operands, words, cells, after, rows = shifting()
    rows[0:31] = LEFT[1:32]
    after[:, :32] = f32((rows @ RIGHT.T).astype(np.float64))
    assert ordered(outcomes(f"{SHIFT}\n{FROM_CELLS}", operands, cells, words), after)


@pytest.mark.full
def test_a_shift_comes_after_the_mma_before_it() -> None:
    operands, words, cells, after, rows = shifting()
    after[:, :32] = f32((rows @ RIGHT.T).astype(np.float64))
    assert ordered(outcomes(f"{FROM_CELLS}\n{SHIFT}", operands, cells, words), after)


@pytest.mark.parametrize("refresh_last", [True, False])
@pytest.mark.full
def test_the_refresh_of_the_row_that_a_shift_leaves(refresh_last: bool) -> None:
    """shift and cp.4x256b keep their order, cp.4x256b and shift do not."""
    operands, words, cells, after, _ = shifting()
    fresh = np.arange(256).reshape(8, 32).astype(np.uint8).view("<u4")
    for quarter in range(4):
        after[32 * quarter + 31, 200:208] = fresh[quarter]
    if not refresh_last:
        after[30, 200:208] = fresh[0]
    code = f"{SHIFT}\n{REFRESH}" if refresh_last else f"{REFRESH}\n{SHIFT}"
    assert ordered(outcomes(code, operands, cells, words, sanitize=refresh_last), after) is refresh_last


# --- commit -------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_commit_that_is_multicast_to_its_own_cta() -> None:
    """Bit 0 is the CTA of rank 0: the same as without a mask."""
    operands, words, product = products()
    cells = cells_of()
    multicast = COMMIT.replace("cluster.b64 [bar]", "cluster.multicast::cluster.b64 [bar+16], one")
    code = f"""
    .reg u16 one
    mov.u16 one, 1
    mbarrier.init.shared::cta.b64 [bar+16], 1
    {mma("never")}
    {multicast}
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [bar+16], 0
    @!q bra W
    """
    found = outcomes(code, operands, cells, words)
    cells[:, :32] = f32(product)
    assert ordered(found, cells)
    for mask, rule in ((2, "out-of-bounds"), (0, "deadlock")):
        report, _ = played(code.replace("one, 1", f"one, {mask}"), operands, cells, words)
        assert report.findings[0].rule.name == rule, report


WAIT = "W:\nmbarrier.try_wait.parity.shared::cta.b64 q, [bar+16], 0\n@!q bra W\ntcgen05.fence::after_thread_sync\n"
OTHER = COMMIT.replace("[bar]", "[bar+16]") + "\n"
INIT = "mbarrier.init.shared::cta.b64 [bar+16], 1\n"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("work", ["mma", "cp"])
@pytest.mark.full
def test_what_a_commit_covers_has_read_shared_memory(work: str, kept: bool) -> None:
    """Behind the commit, it is not covered: what it reads may be gone."""
    operands, words, cells, after, rows = shifting()
    code = (FROM_CELLS if work == "mma" else REFRESH) + "\n"
    at = (B_AT if work == "mma" else B_AT + 8192) - BASE
    after = cells.copy()
    if work == "mma":
        after[:, :32] = f32((rows @ RIGHT.T).astype(np.float64))
    else:
        after[31::32, 200:208] = np.arange(256).reshape(8, 32).astype(np.uint8).view("<u4")[:4]
    overwrite = (
        f"mov.b32 r0, 0\nst.shared.v4.b32 [s+{at}], {{r0, r0, r0, r0}}\nfence.proxy.async.shared::cta\n"
    )
    text = INIT + (code + OTHER if kept else OTHER + code) + WAIT + overwrite
    assert ordered(outcomes(text, operands, cells, words, sanitize=kept), after) is kept


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.full
def test_commits_of_one_thread_arrive_in_order(kept: bool) -> None:
    """Behind the second commit's signal the first one's is there; not the other way round."""
    operands, words, product = products()
    cells = cells_of()
    first, second = (16, 24) if kept else (24, 16)
    code = f"""
    .reg b32 seen
    {INIT}
    mbarrier.init.shared::cta.b64 [bar+24], 1
    {OTHER.replace("bar+16", f"bar+{first}")}
    {OTHER.replace("bar+16", f"bar+{second}")}
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [bar+24], 0
    @!q bra W
    mbarrier.test_wait.parity.shared::cta.b64 q, [bar+16], 0
    {mma("q").replace("tcgen05", "@q tcgen05").replace(", q", ", never")}
    """
    found = outcomes(code, operands, cells, words, sanitize=kept)
    cells[:, :32] = f32(product)
    assert ordered(found, cells) is kept


RESTRICTED = OTHER.replace("arrive::one", "arrive::one.sync_restrict::shared::read::mma::a")


@pytest.mark.parametrize("after", ["overwrite", "use"])
@pytest.mark.sample(1)
@pytest.mark.full
def test_a_commit_that_tells_that_a_was_read(after: str) -> None:
    """A's memory may be used again; D is not there yet."""
    operands, words, product = products()
    # Without a fence behind the wait: nothing orders the second product.
    code = INIT + mma("never") + "\n" + RESTRICTED + WAIT.replace("tcgen05.fence::after_thread_sync\n", "")
    cells = cells_of()
    expected = cells.copy()
    expected[:, :32] = f32(product)
    if after == "overwrite":
        code += f"mov.b32 r0, 0\nst.shared.v4.b32 [s+{A_AT - BASE}], {{r0, r0, r0, r0}}\nfence.proxy.async.shared::cta\n"
    else:
        operands.append(operand(np.eye(16)[:, :8], "tf32", B_AT + 8192, "128B", "K", 0))
        words |= {"c": operands[-1].word, "w": idesc(1, "tf32", "tf32", 128, 16)}
        code += "add.u32 n, tm, 64\ntcgen05.mma.cta_group::1.kind::tf32 [n], [d], c, w, never"
        expected[:, 64:80] = f32(product[:, :8] @ np.eye(16)[:, :8].T)
    found = outcomes(
        code, operands, cells, words, target="sm_107a", schedules=MORE, sanitize=after == "overwrite"
    )
    assert ordered(found, expected) is (after == "overwrite")


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.full
def test_a_commit_covers_shifts(kept: bool) -> None:
    """A cp that is not .4x256b follows a shift only where that was waited for."""
    operands, words, cells, after, _ = shifting()
    copy = "tcgen05.cp.cta_group::1.128x256b [n], a\n"
    after[:, 200:208] = LEFT.astype(np.float16).view("<u4")[:, ::-1]
    operands[0].values = LEFT.astype(np.float16).view("<u4")[:, ::-1].copy().view(np.float16)
    text = INIT + (SHIFT + "\n" + OTHER if kept else OTHER + SHIFT + "\n") + WAIT + copy
    assert ordered(outcomes(text, operands, cells, words, sanitize=kept), after) is kept
