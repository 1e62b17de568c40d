"""Names of CUDA C++, and the PTX instructions that compilers generate for them.

``pyptx isa`` finds instructions by these names.  A test looks up every spelling in the instruction table.
"""

from __future__ import annotations

from ..core.records import dataclass

__all__ = ["CUDA_NAMES", "CudaName", "cuda_name", "cuda_names_with"]


@dataclass(frozen=True)
class CudaName:
    """A name of CUDA C++ and the PTX instructions that compilers generate for it.

    Attributes:
        name: the name in CUDA C++.
        spellings: the instructions, each an opcode or the beginning of a spelling; empty if compilers
            generate no instruction.
        note: a remark for the user; may be empty.
    """

    name: str
    spellings: tuple[str, ...]
    note: str = ""


#: Each row has the names that become the same instructions, the instructions, and a note.
_ROWS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # Threads and registers of the machine.
    ("threadIdx", (), "the special register %tid: ptx.special.tid.x()"),
    ("blockIdx", (), "the special register %ctaid: ptx.special.ctaid.x()"),
    ("blockDim", (), "the special register %ntid: ptx.special.ntid.x()"),
    ("gridDim", (), "the special register %nctaid: ptx.special.nctaid.x()"),
    ("warpSize", (), "32; the special register %laneid is the lane: ptx.special.laneid()"),
    ("clock clock64", (), "the special registers %clock and %clock64: ptx.special.clock64()"),
    ("__shared__", (), "a .shared variable: smem.alloc; loads and stores with .shared"),
    ("__constant__", (), "a .const variable; loads with .const"),
    # Barriers, fences, control.
    ("__syncthreads", ("bar.sync", "barrier.sync"), "bar.sync 0"),
    ("__syncthreads_count", ("bar.red.popc", "barrier.red.popc"), ""),
    ("__syncthreads_and", ("bar.red.and", "barrier.red.and"), ""),
    ("__syncthreads_or", ("bar.red.or", "barrier.red.or"), ""),
    ("__syncwarp", ("bar.warp.sync",), ""),
    ("__threadfence_block", ("membar.cta", "fence.acq_rel.cta", "fence.sc.cta"), ""),
    ("__threadfence", ("membar.gl", "fence.acq_rel.gpu", "fence.sc.gpu"), ""),
    ("__threadfence_system", ("membar.sys", "fence.acq_rel.sys", "fence.sc.sys"), ""),
    ("cuda::atomic_thread_fence", ("fence.acq_rel", "fence.sc"), ""),
    ("__nanosleep", ("nanosleep",), ""),
    ("__trap", ("trap",), ""),
    ("__brkpt", ("brkpt",), ""),
    ("__prof_trigger", ("pmevent",), ""),
    ("cudaGridDependencySynchronize cudaTriggerProgrammaticLaunchCompletion", ("griddepcontrol",), ""),
    (
        "cluster.sync cooperative_groups::cluster_group",
        ("barrier.cluster.arrive", "barrier.cluster.wait"),
        "",
    ),
    ("cluster.map_shared_rank map_shared_rank", ("mapa",), ""),
    ("cluster_group::query_shared_rank query_shared_rank", ("getctarank",), ""),
    ("cuda::ptx::setmaxnreg warpgroup_reg_alloc warpgroup_reg_dealloc", ("setmaxnreg",), ""),
    # Warps.
    ("__shfl_sync __shfl", ("shfl.sync.idx",), ""),
    ("__shfl_up_sync __shfl_up", ("shfl.sync.up",), ""),
    ("__shfl_down_sync __shfl_down", ("shfl.sync.down",), ""),
    ("__shfl_xor_sync __shfl_xor", ("shfl.sync.bfly",), ""),
    ("__ballot_sync __ballot", ("vote.sync.ballot",), ""),
    ("__all_sync __all", ("vote.sync.all",), ""),
    ("__any_sync __any", ("vote.sync.any",), ""),
    ("__uni_sync", ("vote.sync.uni",), ""),
    ("__activemask", ("activemask",), ""),
    ("__match_any_sync", ("match.any.sync",), ""),
    ("__match_all_sync", ("match.all.sync",), ""),
    ("__reduce_add_sync", ("redux.sync.add",), ""),
    ("__reduce_min_sync", ("redux.sync.min",), ""),
    ("__reduce_max_sync", ("redux.sync.max",), ""),
    ("__reduce_and_sync", ("redux.sync.and",), ""),
    ("__reduce_or_sync", ("redux.sync.or",), ""),
    ("__reduce_xor_sync", ("redux.sync.xor",), ""),
    ("elect_one_sync cute::elect_one_sync", ("elect.sync",), ""),
    # Memory.
    ("__ldg", ("ld.global.nc",), ""),
    ("__ldca", ("ld.global.ca",), ""),
    ("__ldcg", ("ld.global.cg",), ""),
    ("__ldcs", ("ld.global.cs",), ""),
    ("__ldcv", ("ld.global.cv",), ""),
    ("__ldlu", ("ld.global.lu",), ""),
    ("__stwb", ("st.global.wb",), ""),
    ("__stcg", ("st.global.cg",), ""),
    ("__stcs", ("st.global.cs",), ""),
    ("__stwt", ("st.global.wt",), ""),
    ("__cvta_generic_to_shared __cvta_generic_to_global", ("cvta.to",), ""),
    ("__cvta_shared_to_generic __cvta_global_to_generic", ("cvta",), ""),
    ("__isShared __isGlobal __isConstant __isLocal", ("isspacep",), ""),
    ("__builtin_alloca", ("alloca",), ""),
    # Atomics.
    ("atomicAdd", ("atom.add", "red.add"), "red where the result is not used"),
    ("atomicSub", ("atom.add", "red.add"), "the negated value is added"),
    ("atomicExch", ("atom.exch",), ""),
    ("atomicMin", ("atom.min", "red.min"), ""),
    ("atomicMax", ("atom.max", "red.max"), ""),
    ("atomicInc", ("atom.inc", "red.inc"), ""),
    ("atomicDec", ("atom.dec", "red.dec"), ""),
    ("atomicCAS", ("atom.cas",), ""),
    ("atomicAnd", ("atom.and", "red.and"), ""),
    ("atomicOr", ("atom.or", "red.or"), ""),
    ("atomicXor", ("atom.xor", "red.xor"), ""),
    ("cuda::atomic cuda::atomic_ref cuda::std::atomic", ("atom", "red", "ld.acquire", "st.release"), ""),
    # mbarrier, asynchronous copies.
    (
        "cuda::barrier __mbarrier_t",
        ("mbarrier.init", "mbarrier.arrive", "mbarrier.try_wait", "mbarrier.test_wait"),
        "in shared memory",
    ),
    ("__mbarrier_init", ("mbarrier.init",), ""),
    ("__mbarrier_inval", ("mbarrier.inval",), ""),
    ("__mbarrier_arrive", ("mbarrier.arrive",), ""),
    ("__mbarrier_test_wait", ("mbarrier.test_wait",), ""),
    ("__mbarrier_token_pending_count", ("mbarrier.pending_count",), ""),
    ("cuda::device::barrier_arrive_tx", ("mbarrier.arrive.expect_tx",), ""),
    ("__pipeline_memcpy_async cuda::memcpy_async", ("cp.async.ca", "cp.async.cg", "cp.async.bulk"), ""),
    ("__pipeline_commit cuda::pipeline", ("cp.async.commit_group",), ""),
    ("__pipeline_wait_prior", ("cp.async.wait_group", "cp.async.wait_all"), ""),
    ("__pipeline_arrive_on", ("cp.async.mbarrier.arrive",), ""),
    (
        "CUtensorMap cp_async_bulk_tensor SM90_TMA_LOAD SM90_TMA_STORE TMA",
        ("cp.async.bulk.tensor",),
        "the tensor memory accelerator copies boxes of a tensor through a tensor map",
    ),
    ("cuda::ptx::fence_proxy_async cutlass::arch::fence_view_async_shared", ("fence.proxy.async",), ""),
    # Matrices.
    ("nvcuda::wmma::load_matrix_sync load_matrix_sync", ("wmma.load",), ""),
    ("nvcuda::wmma::store_matrix_sync store_matrix_sync", ("wmma.store",), ""),
    ("nvcuda::wmma::mma_sync mma_sync", ("wmma.mma.sync",), ""),
    ("warpgroup_arrive", ("wgmma.fence",), "of CUTLASS"),
    ("warpgroup_commit_batch", ("wgmma.commit_group",), "of CUTLASS"),
    ("warpgroup_wait", ("wgmma.wait_group",), "of CUTLASS"),
    ("umma UMMA tcgen05_mma", ("tcgen05.mma",), "the tensor cores of Blackwell"),
    ("TMEM tmem_allocate", ("tcgen05.alloc",), "tensor memory"),
    # Integers and bits.
    ("__popc __popcll", ("popc",), ""),
    ("__clz __clzll", ("clz",), ""),
    ("__ffs __ffsll", ("brev", "bfind"), "two instructions: reverse, then find the highest bit"),
    ("__fns", ("fns",), ""),
    ("__brev __brevll", ("brev",), ""),
    ("__byte_perm", ("prmt",), ""),
    ("__funnelshift_l __funnelshift_lc", ("shf.l",), ""),
    ("__funnelshift_r __funnelshift_rc", ("shf.r",), ""),
    ("__mulhi __umulhi __mul64hi __umul64hi", ("mul.hi",), ""),
    ("__mul24 __umul24", ("mul24",), ""),
    ("__sad __usad", ("sad",), ""),
    ("__dp4a", ("dp4a",), ""),
    ("__dp2a_lo __dp2a_hi", ("dp2a",), ""),
    ("__vadd2", ("vadd2", "add.u16x2"), ""),
    ("__vmaxs2 __vmaxu2", ("max.s16x2", "max.u16x2"), ""),
    # Floating point.
    ("fmaf __fmaf_rn __fma_rn __fmaf_rz", ("fma",), ""),
    ("__fadd_rn __dadd_rn __fadd_rz", ("add.rn", "add.rz"), ""),
    ("__fmul_rn __dmul_rn __fmul_rz", ("mul.rn", "mul.rz"), ""),
    ("__fdividef __fdiv_rn __ddiv_rn", ("div.approx", "div.rn"), "fdividef is div.approx"),
    ("__frcp_rn __drcp_rn", ("rcp.rn",), ""),
    ("sqrtf __fsqrt_rn __dsqrt_rn", ("sqrt.rn", "sqrt.approx"), ""),
    ("rsqrtf __frsqrt_rn", ("rsqrt.approx",), ""),
    ("exp2 exp2f", ("ex2.approx",), "exp2f scales results below the normal range as well"),
    (
        "exp expf __expf",
        ("ex2.approx", "mul"),
        "__expf: 2 to the power of x * log2(e); expf and exp are longer",
    ),
    ("log2 log2f __log2f", ("lg2.approx",), "__log2f; log2f is longer"),
    ("log logf __logf", ("lg2.approx", "mul"), "__logf: lg2 times ln(2); logf and log are longer"),
    (
        "__powf pow powf",
        ("lg2.approx", "ex2.approx"),
        "__powf: 2 to the power of y * lg2(x); powf and pow are longer",
    ),
    ("sinf __sinf", ("sin.approx",), "__sinf; sinf reduces its argument first"),
    ("cosf __cosf", ("cos.approx",), "__cosf; cosf reduces its argument first"),
    ("tanhf __tanhf", ("tanh.approx",), "__tanhf; tanhf is longer"),
    ("fabsf fabs", ("abs",), ""),
    ("fminf fmin", ("min",), ""),
    ("fmaxf fmax", ("max",), ""),
    ("copysignf", ("copysign",), ""),
    ("isnan isinf isfinite", ("testp", "setp.nan"), ""),
    ("__saturatef", ("cvt.sat.f32.f32", "add.sat"), ""),
    ("floorf ceilf truncf rintf nearbyintf", ("cvt.rmi", "cvt.rpi", "cvt.rzi", "cvt.rni"), ""),
    ("__float2int_rn __float2int_rz __int2float_rn __float2half __half2float", ("cvt",), ""),
    (
        "__float22half2_rn __floats2half2_rn __floats2bfloat162_rn",
        ("cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32"),
        "",
    ),
    ("__float_as_int __int_as_float __float_as_uint __double2hiint", ("mov",), "a copy of bits: Reg.view()"),
    ("__hadd __hadd2", ("add.f16", "add.f16x2"), ""),
    ("__hmul __hmul2", ("mul.f16", "mul.f16x2"), ""),
    ("__hfma __hfma2", ("fma.rn.f16", "fma.rn.f16x2"), ""),
    ("h2exp2 hexp2", ("ex2.approx.f16", "ex2.approx.f16x2"), ""),
    # Textures and printing.
    ("tex1D tex2D tex3D texCubemap", ("tex",), ""),
    ("tex2Dgather", ("tld4",), ""),
    ("surf2Dread", ("suld",), ""),
    ("surf2Dwrite", ("sust",), ""),
    (
        "printf assert malloc",
        ("call",),
        "a call of vprintf, __assertfail or malloc, which the driver provides",
    ),
)

#: Name in CUDA C++ -> what it becomes.
CUDA_NAMES: dict[str, CudaName] = {
    name: CudaName(name, spellings, note) for names, spellings, note in _ROWS for name in names.split()
}
_LOWER = {name.lower(): found for name, found in CUDA_NAMES.items()}
#: Searches for a part of a name need at least this many letters.
_PART = 4


def cuda_name(text: str) -> CudaName | None:
    """Return the CUDA name that ``text`` spells, or None.

    ``text`` may have arguments, template arguments or a member after the name. Upper and lower case are
    equivalent.
    """
    word = text.strip().removeprefix("::").partition("(")[0].partition("<")[0].strip()
    for candidate in (word, word.partition(".")[0]):
        found = CUDA_NAMES.get(candidate) or _LOWER.get(candidate.lower())
        if found is not None:
            return found
    return None


def cuda_names_with(text: str) -> list[CudaName]:
    """Return the CUDA C++ names that contain ``text``, ignoring case; none if ``text`` is very short."""
    part = text.strip().lower()
    return [found for name, found in _LOWER.items() if part in name] if len(part) >= _PART else []
