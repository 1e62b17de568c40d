"""A valid call of every public function of the DSL, from the registers of one kernel.

What a test that varies arguments starts from: :data:`VALID` has, for each name that an author writes, a
function of the :class:`Bench` that gives the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyptx.core.types import (
    TYPES,
    b16,
    b32,
    b64,
    b128,
    bf16,
    bf16x2,
    f16,
    f16x2,
    f32,
    f64,
    pred,
    s32,
    tf32,
    u16,
    u32,
    u64,
)
from pyptx.dsl import ptx, reg, smem

__all__ = ["VALID", "Bench"]

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def given(*positional: Any, **named: Any) -> Arguments:
    return positional, named


class Bench:
    """Registers, places in memory and labels that the calls of one kernel share."""

    def __init__(self) -> None:
        one = self._one
        self.b16, self.b32, self.b64, self.b128 = one(b16), one(b32), one(b64), one(b128)
        self.u16, self.u32, self.u64, self.s32 = one(u16), one(u32), one(u64), one(s32)
        self.f16, self.f32, self.f64 = one(f16), one(f32), one(f64)
        self.bf16, self.f16x2, self.bf16x2, self.tf32 = one(bf16), one(f16x2), one(bf16x2), one(tf32)
        self.p = one(pred)
        self.words = reg.array(b32, 4, name="words")
        self.floats = reg.array(f32, 4, name="floats")
        self.buffer = smem.alloc((64, 64), bf16, swizzle="128B", name="buffer")
        self.plain = smem.alloc((64, 64), f32, align=1024, name="plain")
        self.stages = smem.alloc((16, 16), f32, stages=3, name="stages")
        self.bar = smem.alloc(1, b64, name="bar")
        self.slot = smem.alloc(1, b32, name="slot")
        self.label = ptx.label("start")
        self.symbol = ptx.variable("shared", b32, "variable", shape=(4,))
        self.sums = ptx.wgmma.accumulator(n=8, name="sums")
        self.a = ptx.mma.fragment("a", "m16n8k16", "f16", name="a")
        self.b = ptx.mma.fragment("b", "m16n8k16", "f16", name="b")
        self.d = ptx.mma.fragment("d", "m16n8k16", "f32", name="d")
        self.half8 = reg.array(f16x2, 8, name="half8")
        self.sum8 = reg.array(f32, 8, name="sum8")

    @staticmethod
    def _one(kind: Any) -> Any:
        return reg.scalar(kind, name=f"given_{kind}")


VALID: dict[str, Callable[[Bench], Arguments]] = {
    # operands, declarations, control
    "ptx.addr": lambda v: given(v.u64, 4),
    "ptx.minus": lambda v: given(v.s32),
    "ptx.pair": lambda v: given(v.u32, v.p),
    "ptx.part": lambda v: given(v.u32, "x"),
    "ptx.pattern": lambda v: given(0x3F800000, f32),
    "ptx.plus": lambda v: given(v.u32, 4),
    "ptx.raw": lambda v: given("// text"),
    "ptx.symbol": lambda v: given("variable"),
    "ptx.branchtargets": lambda v: given(ptx.new_label("targets"), [v.label]),
    "ptx.call": lambda v: given([v.u32], v.u64, [v.u32], prototype=ptx.callprototype(
        ptx.new_label("type"), params=[ptx.param(u32)], returns=[ptx.param(u32)])),
    "ptx.callprototype": lambda v: given(ptx.new_label("type"), params=[ptx.param(u32)]),
    "ptx.calltargets": lambda v: given(ptx.new_label("functions"), ["f"]),
    "ptx.param": lambda v: given(u32),
    "ptx.pragma": lambda v: given("nounroll"),
    "ptx.variable": lambda v: given("local", b32, "fresh", shape=(4,)),
    "ptx.bra": lambda v: given(v.label),
    "ptx.exit": lambda v: given(v.p),
    "ptx.ret": lambda v: given(v.p),
    "ptx.label": lambda v: given(ptx.new_label()),
    "ptx.new_label": lambda v: given("here"),
    "ptx.brkpt": lambda v: given(),
    "ptx.nanosleep": lambda v: given(20),
    "ptx.pmevent": lambda v: given(1),
    "ptx.printf": lambda v: given("%d\n", v.u32),
    "ptx.trap": lambda v: given(pred=v.p),
    # memory
    "ptx.atom": lambda v: given("add", v.u64, v.u32),
    "ptx.atom_cas": lambda v: given(v.u64, v.u32, v.u32),
    "ptx.red": lambda v: given("add", v.u64, v.u32),
    "ptx.red_async": lambda v: given(v.u32, v.u32, v.u32, "add"),
    "ptx.red_async_release": lambda v: given(v.u64, v.u32),
    "ptx.st_async": lambda v: given(v.u32, v.u32, v.u32),
    "ptx.st_async_release": lambda v: given(v.u64, v.u32),
    "ptx.st_bulk": lambda v: given(v.plain, 64),
    "ptx.ldu": lambda v: given(u32, v.u64),
    "ptx.load": lambda v: given(u32, v.u64),
    "ptx.store": lambda v: given(v.u64, v.u32),
    # conversions, arithmetic, bits, selection
    "ptx.abs": lambda v: given(v.f32),
    "ptx.add": lambda v: given(v.f32, v.f32),
    "ptx.add_cc": lambda v: given(v.u32, v.u32),
    "ptx.add_wide": lambda v: given(v.words, v.words),
    "ptx.addc": lambda v: given(v.u32, v.u32),
    "ptx.bfe": lambda v: given(v.u32, 3, 4),
    "ptx.bfi": lambda v: given(v.u32, v.u32, 3, 4),
    "ptx.bfind": lambda v: given(v.u32),
    "ptx.bmsk": lambda v: given(v.u32, 4),
    "ptx.brev": lambda v: given(v.u32),
    "ptx.clz": lambda v: given(v.u32),
    "ptx.cnot": lambda v: given(v.u32),
    "ptx.copysign": lambda v: given(v.f32, v.f32),
    "ptx.cos": lambda v: given(v.f32),
    "ptx.cvt": lambda v: given(v.f32, f16, rounding="rn"),
    "ptx.cvt_pack": lambda v: given(v.s32, v.s32, "u16"),
    "ptx.cvt_x2": lambda v: given(v.f32, v.f32, f16x2),
    "ptx.cvt_x4": lambda v: given([v.f32] * 4, TYPES["e4m3x4"], v.b32),
    "ptx.cvta": lambda v: given(v.u64, "shared"),
    "ptx.cvta_to": lambda v: given(v.u64, "shared"),
    "ptx.div": lambda v: given(v.f32, v.f32),
    "ptx.dp2a": lambda v: given(v.u32, v.u32, v.u32),
    "ptx.dp4a": lambda v: given(v.u32, v.u32, v.u32),
    "ptx.ex2": lambda v: given(v.f32),
    "ptx.fma": lambda v: given(v.f32, v.f32, v.f32),
    "ptx.fns": lambda v: given(v.b32, v.u32, v.s32),
    "ptx.isspacep": lambda v: given(v.u64, "shared"),
    "ptx.lg2": lambda v: given(v.f32),
    "ptx.lop3": lambda v: given(v.b32, v.b32, v.b32, 0x80),
    "ptx.lop3_test": lambda v: given(v.b32, v.b32, v.b32, 0x80, "or", v.p),
    "ptx.mad": lambda v: given(v.u32, v.u32, v.u32, half="lo"),
    "ptx.mad_cc": lambda v: given(v.u32, v.u32, v.u32, half="lo"),
    "ptx.madc": lambda v: given(v.u32, v.u32, v.u32, half="lo"),
    "ptx.max": lambda v: given(v.f32, v.f32),
    "ptx.min": lambda v: given(v.u32, v.u32),
    "ptx.mul": lambda v: given(v.u32, v.u32, half="lo"),
    "ptx.neg": lambda v: given(v.f32),
    "ptx.pack": lambda v: given(v.b32, v.b32),
    "ptx.popc": lambda v: given(v.b32),
    "ptx.prmt": lambda v: given(v.b32, v.b32, 0x5410),
    "ptx.rcp": lambda v: given(v.f32),
    "ptx.rsqrt": lambda v: given(v.f32),
    "ptx.sad": lambda v: given(v.u32, v.u32, v.u32),
    "ptx.selp": lambda v: given(v.u32, v.u32, v.p),
    "ptx.set_": lambda v: given("lt", v.u32, v.u32, u32),
    "ptx.setp": lambda v: given("lt", v.u32, v.u32),
    "ptx.setp_pair": lambda v: given("lt", v.f16x2, v.f16x2),
    "ptx.shf": lambda v: given(v.b32, v.b32, 3, direction="l"),
    "ptx.sin": lambda v: given(v.f32),
    "ptx.slct": lambda v: given(v.u32, v.u32, v.s32),
    "ptx.sqrt": lambda v: given(v.f32),
    "ptx.sub": lambda v: given(v.f32, v.f32),
    "ptx.sub_cc": lambda v: given(v.u32, v.u32),
    "ptx.sub_wide": lambda v: given(v.words, v.words),
    "ptx.subc": lambda v: given(v.u32, v.u32),
    "ptx.szext": lambda v: given(v.u32, 4),
    "ptx.tanh": lambda v: given(v.f32),
    "ptx.testp": lambda v: given(v.f32, "finite"),
    "ptx.unpack": lambda v: given(v.b64, b32),
    # barriers, caches, clusters
    **{f"ptx.{unit}.{name}": lambda v: given(v.p, 1, 64)
       for unit in ("bar", "barrier") for name in ("red_and", "red_or", "red_popc")},
    **{f"ptx.{unit}.{name}": lambda v: given(1, 64)
       for unit in ("bar", "barrier") for name in ("arrive", "sync")},
    "ptx.bar.warp_sync": lambda v: given(),
    "ptx.cache.apply_priority": lambda v: given(v.u64),
    "ptx.cache.discard": lambda v: given(v.u64),
    "ptx.cache.policy": lambda v: given("evict_last", "evict_unchanged"),
    "ptx.cache.policy_cvt": lambda v: given(v.b64),
    "ptx.cache.policy_range": lambda v: given(v.u64, 64, 128, "evict_last"),
    "ptx.cache.prefetch": lambda v: given(v.u64),
    "ptx.cache.prefetch_uniform": lambda v: given(v.u64),
    "ptx.cluster.arrive": lambda v: given(),
    "ptx.cluster.getctarank": lambda v: given(v.buffer),
    "ptx.cluster.map": lambda v: given(v.buffer, 1),
    "ptx.cluster.rank": lambda v: given(),
    "ptx.cluster.size": lambda v: given(),
    "ptx.cluster.sync": lambda v: given(),
    "ptx.cluster.wait": lambda v: given(),
    **{f"ptx.clusterlaunchcontrol.{name}": lambda v: given(v.b128)
       for name in ("first_ctaid", "first_ctaid_x", "first_ctaid_y", "first_ctaid_z", "is_canceled")},
    "ptx.clusterlaunchcontrol.try_cancel": lambda v: given(v.plain, v.bar),
    # copies
    "ptx.cp.async_": lambda v: given(v.plain, v.u64, 16),
    "ptx.cp.async_.commit_group": lambda v: given(),
    "ptx.cp.async_.wait_group": lambda v: given(1),
    "ptx.cp.async_.wait_all": lambda v: given(),
    "ptx.cp.async_.mbarrier_arrive": lambda v: given(v.bar),
    "ptx.cp.async_.bulk.apply_priority": lambda v: given(v.u64, 128),
    "ptx.cp.async_.bulk.apply_priority_tensor": lambda v: given(v.u64, (0, 0)),
    "ptx.cp.async_.bulk.commit_group": lambda v: given(),
    "ptx.cp.async_.bulk.load": lambda v: given(v.plain, v.u64, 64, v.bar),
    "ptx.cp.async_.bulk.prefetch": lambda v: given(v.u64, 64),
    "ptx.cp.async_.bulk.prefetch_tensor": lambda v: given(v.u64, (0, 0)),
    "ptx.cp.async_.bulk.reduce": lambda v: given(v.u64, v.plain, 64, "add", "f32"),
    "ptx.cp.async_.bulk.reduce_cluster": lambda v: given(v.u32, v.plain, 64, v.u32, "add", "u32"),
    "ptx.cp.async_.bulk.store": lambda v: given(v.u64, v.plain, 64),
    "ptx.cp.async_.bulk.store_cluster": lambda v: given(v.u32, v.plain, 64, v.u32),
    **{f"ptx.cp.async_.bulk.tensor_{n}d": lambda v, n=n: given(
        dst=v.plain, src=v.u64, coord=(v.s32, *[0] * (n - 1)), mbar=v.bar) for n in range(1, 6)},
    "ptx.cp.async_.bulk.wait_group": lambda v: given(1),
    # fences
    "ptx.fence.acq_rel": lambda v: given("gpu"),
    "ptx.fence.acquire": lambda v: given("cluster", sync_restrict="shared::cluster"),
    "ptx.fence.mbarrier_init": lambda v: given(),
    "ptx.fence.proxy_alias": lambda v: given(),
    "ptx.fence.proxy_async": lambda v: given(),
    "ptx.fence.proxy_async_acquire": lambda v: given(),
    "ptx.fence.proxy_async_release": lambda v: given(),
    "ptx.fence.proxy_fabric": lambda v: given("fabric::generic", "acquire"),
    "ptx.fence.proxy_tensormap_acquire": lambda v: given(v.u64, "gpu"),
    "ptx.fence.proxy_tensormap_release": lambda v: given("gpu"),
    "ptx.fence.release": lambda v: given("cluster", sync_restrict="shared::cta"),
    "ptx.fence.sc": lambda v: given("gpu"),
    "ptx.griddepcontrol.launch_dependents": lambda v: given(),
    "ptx.griddepcontrol.wait": lambda v: given(),
    # matrices
    "ptx.ldmatrix": lambda v: given(v.words, v.u32),
    "ptx.stmatrix": lambda v: given(v.u32, v.words),
    "ptx.movmatrix": lambda v: given(v.b32),
    "ptx.mma": lambda v: given(v.d, v.a, v.b),
    "ptx.wmma.load_a": lambda v: given(v.u32, "m16n16k16", "f16"),
    "ptx.wmma.load_b": lambda v: given(v.u32, "m16n16k16", "f16"),
    "ptx.wmma.load_c": lambda v: given(v.u32, "m16n16k16", "f32"),
    "ptx.wmma.mma": lambda v: given(v.half8, v.half8, v.sum8, "m16n16k16", "f16", dtype="f32", ctype="f32"),
    "ptx.wmma.store_d": lambda v: given(v.u32, v.sum8, "m16n16k16", "f32"),
    # mbarriers
    **{f"ptx.mbarrier.{name}": lambda v: given(v.bar, 64) for name in (
        "arrive", "arrive_drop", "arrive_expect_tx", "arrive_drop_expect_tx", "expect_tx", "complete_tx", "init")},
    "ptx.mbarrier.arrive_no_complete": lambda v: given(v.bar, 1, state=v.b64),
    "ptx.mbarrier.arrive_drop_no_complete": lambda v: given(v.bar, 1, state=v.b64),
    "ptx.mbarrier.check_layout": lambda v: given(v.bar, "v0"),
    "ptx.mbarrier.inval": lambda v: given(v.bar),
    "ptx.mbarrier.pending_count": lambda v: given(v.b64),
    "ptx.mbarrier.test_wait": lambda v: given(v.bar, 0),
    "ptx.mbarrier.try_wait": lambda v: given(v.bar, v.u32),
    "ptx.mbarrier.wait": lambda v: given(v.bar, 0),
    # multimem
    "ptx.multimem.cp_async_bulk": lambda v: given(v.u64, v.plain, 16),
    "ptx.multimem.cp_reduce_async_bulk": lambda v: given(v.u64, v.plain, 16, "add", "u32"),
    "ptx.multimem.ld_reduce": lambda v: given(v.u32, v.u64, "add"),
    "ptx.multimem.red": lambda v: given(v.u64, v.u32, "add"),
    "ptx.multimem.red_async": lambda v: given(v.u64, v.u32),
    "ptx.multimem.st": lambda v: given(v.u64, v.u32),
    "ptx.multimem.st_async": lambda v: given(v.u64, v.u32),
    "ptx.setmaxnreg.dec": lambda v: given(40),
    "ptx.setmaxnreg.inc": lambda v: given(232),
    # fifth-generation tensor cores
    "ptx.tcgen05.address": lambda v: given(v.b32, 32, v.u32),
    "ptx.tcgen05.advance": lambda v: given(v.b64, 32),
    "ptx.tcgen05.alloc": lambda v: given(v.slot, 64),
    "ptx.tcgen05.commit": lambda v: given(v.bar),
    "ptx.tcgen05.cp": lambda v: given(v.b32, v.b64, "128x256b"),
    "ptx.tcgen05.dealloc": lambda v: given(v.b32, 64),
    "ptx.tcgen05.fence_after_thread_sync": lambda v: given(),
    "ptx.tcgen05.fence_before_thread_sync": lambda v: given(),
    "ptx.tcgen05.instruction_descriptor": lambda v: given(m=128, n=64, a_type="bf16", b_type="bf16"),
    "ptx.tcgen05.ld": lambda v: given(v.words, v.b32),
    "ptx.tcgen05.ld_red": lambda v: given(v.floats, v.f32, v.b32, "min"),
    "ptx.tcgen05.ld_red_spcompress": lambda v: given(v.b32, v.sum8, v.f32, v.b32, "min"),
    "ptx.tcgen05.ld_spcompress": lambda v: given(v.b32, v.sum8, v.b32, "min"),
    "ptx.tcgen05.make_instr_desc_f16bf16_f32": lambda v: given(128, 64),
    "ptx.tcgen05.masked_descriptor": lambda v: given(v.buffer),
    "ptx.tcgen05.mma": lambda v: given(v.b32, v.b64, v.b64, v.b32),
    "ptx.tcgen05.mma_sp": lambda v: given(v.b32, v.b64, v.b64, v.b32, v.b32),
    "ptx.tcgen05.mma_ws": lambda v: given(v.b32, v.b64, v.b64, v.b32),
    "ptx.tcgen05.mma_ws_sp": lambda v: given(v.b32, v.b64, v.b64, v.b32, v.b32),
    "ptx.tcgen05.relinquish_alloc_permit": lambda v: given(),
    "ptx.tcgen05.shift": lambda v: given(v.b32),
    "ptx.tcgen05.smem_descriptor": lambda v: given(v.buffer),
    "ptx.tcgen05.st": lambda v: given(v.b32, v.words),
    "ptx.tcgen05.wait_ld": lambda v: given(),
    "ptx.tcgen05.wait_st": lambda v: given(),
    "ptx.tcgen05.with_scale_ids": lambda v: given(v.b32, a=1),
    "ptx.tcgen05.zero_column_mask": lambda v: given(),
    # tensor maps
    "ptx.tensormap.cp_fenceproxy": lambda v: given(v.u64, v.plain, "gpu"),
    "ptx.tensormap.prefetch": lambda v: given(v.u64),
    "ptx.tensormap.replace_box_dim": lambda v: given(v.plain, 1, 64),
    "ptx.tensormap.replace_element_stride": lambda v: given(v.plain, 1, 1),
    "ptx.tensormap.replace_elemtype": lambda v: given(v.plain, bf16),
    "ptx.tensormap.replace_fill_mode": lambda v: given(v.plain, "zeros"),
    "ptx.tensormap.replace_global_address": lambda v: given(v.plain, v.u64),
    "ptx.tensormap.replace_global_dim": lambda v: given(v.plain, 1, 64),
    "ptx.tensormap.replace_global_stride": lambda v: given(v.plain, 1, 64),
    "ptx.tensormap.replace_interleave_layout": lambda v: given(v.plain, "none"),
    "ptx.tensormap.replace_rank": lambda v: given(v.plain, 3),
    "ptx.tensormap.replace_swizzle_atomicity": lambda v: given(v.plain, "16B"),
    "ptx.tensormap.replace_swizzle_mode": lambda v: given(v.plain, "128B"),
    # warps
    "ptx.warp.activemask": lambda v: given(),
    "ptx.warp.ballot": lambda v: given(v.p),
    "ptx.warp.elect": lambda v: given(),
    "ptx.warp.match_all": lambda v: given(v.b32),
    "ptx.warp.match_any": lambda v: given(v.b32),
    "ptx.warp.reduce": lambda v: given(v.u32),
    "ptx.warp.redux": lambda v: given("add", v.u32),
    "ptx.warp.scan": lambda v: given(v.u32),
    "ptx.warp.shfl64": lambda v: given("idx", v.b64, 3),
    **{f"ptx.warp.shfl_{mode}": lambda v: given(v.b32, 3) for mode in ("bfly", "down", "idx", "up")},
    "ptx.warp.sync": lambda v: given(),
    **{f"ptx.warp.vote_{mode}": lambda v: given(v.p) for mode in ("all", "any", "uni")},
    # fourth-generation tensor cores
    "ptx.wgmma.accumulator": lambda v: given(n=8),
    "ptx.wgmma.advance": lambda v: given(v.b64, 32),
    "ptx.wgmma.commit_group": lambda v: given(),
    "ptx.wgmma.descriptor": lambda v: given(v.buffer),
    "ptx.wgmma.fence": lambda v: given(),
    "ptx.wgmma.fragment": lambda v: given(bf16),
    "ptx.wgmma.mma_async": lambda v: given(v.sums, v.b64, v.b64, atype="bf16"),
    "ptx.wgmma.wait_group": lambda v: given(1),
    # registers and shared memory
    "reg.array": lambda v: given(b32, 2),
    "reg.declare": lambda v: given(b32, "fresh"),
    "reg.scalar": lambda v: given(b32, 1),
    "smem.alloc": lambda v: given((4, 4), f32),
    "smem.base": lambda v: given(),
    "smem.load": lambda v: given(f32, v.plain),
    "smem.store": lambda v: given(v.plain, v.f32),
}  # fmt: skip
