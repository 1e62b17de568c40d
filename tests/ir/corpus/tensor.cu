// The engines: tensor cores of three generations, bulk copies, barriers in memory, clusters; most of it inline assembly.
#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

#define MMA(name, shape, types, A, B)                                                                                   \
    __global__ void name(const unsigned *a, const unsigned *b, float *d) {                                              \
        float c[4] = {d[0], d[1], d[2], d[3]};                                                                          \
        asm volatile("mma.sync.aligned." shape ".row.col." types " {%0, %1, %2, %3}, " A ", " B ", {%0, %1, %2, %3};"   \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                   \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                               \
        for (int i = 0; i < 4; i++) d[threadIdx.x * 4 + i] = c[i];                                                      \
    }
MMA(mma_half, "m16n8k16", "f32.f16.f16.f32", "{%4, %5, %6, %7}", "{%8, %9}")
MMA(mma_bfloat, "m16n8k8", "f32.bf16.bf16.f32", "{%4, %5}", "{%8}")
MMA(mma_tf32, "m16n8k8", "f32.tf32.tf32.f32", "{%4, %5, %6, %7}", "{%8, %9}")

__global__ void mma_integer(const unsigned *a, const unsigned *b, int *d) {
    int c[4] = {};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (int i = 0; i < 4; i++) d[threadIdx.x * 4 + i] = c[i];
}
__global__ void mma_double(const double *a, const double *b, double *d) {
    double x = d[0], y = d[1];
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(x), "+d"(y) : "d"(a[0]), "d"(b[0]));
    d[threadIdx.x * 2] = x, d[threadIdx.x * 2 + 1] = y;
}
__global__ void mma_sparse(const unsigned *a, const unsigned *b, unsigned *d, unsigned meta) {
    unsigned c[2] = {};
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7, %8, %9}, {%0, %1}, %10, 0x1;"
                 : "+r"(c[0]), "+r"(c[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(meta));
    d[threadIdx.x] = c[0] + c[1];
}
__global__ void matrices(const __half *in, unsigned *out) {
    __shared__ __half tile[512];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    unsigned r[4], t[2], m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4+64];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(tile)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(t[0]), "=r"(t[1]) : "r"(shared_address(tile + 64)));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(m) : "r"(r[2]));
    out[threadIdx.x] = r[0] + r[1] + r[2] + r[3] + t[0] + t[1] + m;
}
template <class T, int M, int N, int K> __global__ void fragments(const T *a, const T *b, float *c) {
    using namespace nvcuda::wmma;
    __shared__ T left[M * K];
    fragment<matrix_a, M, N, K, T, col_major> x;
    fragment<matrix_b, M, N, K, T, row_major> y;
    fragment<accumulator, M, N, K, float> z;
    left[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    load_matrix_sync(x, left, M);
    load_matrix_sync(y, b, 64);
    load_matrix_sync(z, c, 64, mem_row_major);
    for (int i = 0; i < z.num_elements; i++) z.x[i] *= 2;
    mma_sync(z, x, y, z);
    store_matrix_sync(c, z, 64, mem_col_major);
}
template __global__ void fragments<__half, 32, 8, 16>(const __half *, const __half *, float *);
template __global__ void fragments<__half, 8, 32, 16>(const __half *, const __half *, float *);

__global__ void stages(const float4 *in, float4 *out, int n) {
    extern __shared__ float4 ring[];
    for (int s = 0; s < 3; s++) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(&ring[s * 128 + threadIdx.x])), "l"(in + s * 128 + threadIdx.x), "r"(s < n ? 16 : 0));
        asm volatile("cp.async.commit_group;");
    }
    for (int s = 0; s < n; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(2) : "memory");
        __syncthreads();
        out[s * 128 + threadIdx.x] = ring[s % 3 * 128 + (threadIdx.x ^ 1)];
    }
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\ncp.async.wait_all;" ::"r"(shared_address(ring)), "l"(in));
}
__global__ void reductions(unsigned *x) {
    unsigned a = x[threadIdx.x], b, p, o = __reduce_min_sync(~0u, a) + __reduce_xor_sync(~0u, a);
    asm volatile("{ .reg .pred q; match.all.sync.b32 %0|q, %2, 0xffffffff; selp.u32 %1, 1, 0, q; }" : "=r"(b), "=r"(p) : "r"(a));
    asm volatile("{ .reg .pred q; setp.ne.b32 q, %1, 0; barrier.cta.red.popc.aligned.u32 %0, 1, 64, !q; }" : "=r"(a) : "r"(b));
    asm volatile("bar.arrive 2, 64; bar.warp.sync 0xffff; barrier.sync 3;");
    asm volatile("red.relaxed.gpu.global.add.u32 [%0+8], %1; atom.acq_rel.sys.global.cas.b32 %2, [%0], %1, 7;" : "+l"(x), "+r"(b), "=r"(o));
    asm volatile("fence.acq_rel.gpu; membar.sys; fence.sc.cta; prefetch.global.L2 [%0]; discard.global.L2 [%0], 128;" ::"l"(x));
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(policy));
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;" : "=r"(a), "=r"(b) : "l"(x), "l"(policy));
    asm volatile("lop3.b32 %0, %1, %2, %0, 0x96; prmt.b32 %1, %0, %2, 0x5410; bfe.u32 %2, %0, 3, 5;" : "+r"(a), "+r"(b), "+r"(p));
    x[threadIdx.x] = a + b + p + o;
}

#if __CUDA_ARCH__ >= 900
__device__ void wait(unsigned long long *barrier, unsigned parity) {
    asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 0x989680;\n@done bra.uni DONE;\nbra.uni WAIT;\nDONE:\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
__global__ void __cluster_dims__(2, 1, 1) bulk(const __grid_constant__ CUtensorMap map, float *out, const float *in) {
    __shared__ alignas(128) float tile[32][32];
    __shared__ unsigned long long barrier;
    unsigned b = shared_address(&barrier), t = shared_address(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1; fence.mbarrier_init.release.cluster; prefetch.tensormap [%2];" ::"r"(b), "r"(1), "l"(&map));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "n"(4096));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(t), "l"(&map), "r"(0), "r"(blockIdx.x), "r"(b) : "memory");
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, 0}], [%4], {%5}, %6;" ::"r"(t), "l"(&map), "r"(0), "r"(1), "r"(b), "h"((short)2), "h"((short)3) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(t), "l"(in), "r"(b) : "memory");
    }
    wait(&barrier, 0);
    tile[threadIdx.x / 32][threadIdx.x % 32] += 1;
    asm volatile("fence.proxy.async.shared::cta;");
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(0), "r"(0), "r"(t) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(out), "r"(t) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(t), "r"(3), "r"(b));
    asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;");
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; @p mbarrier.inval.shared::cta.b64 [%0]; }" ::"r"(b));
}
__global__ void __launch_bounds__(384, 1) roles(float *out) {
    if (threadIdx.x / 128 == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        asm volatile("bar.arrive 1, 384;");
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        asm volatile("bar.sync 1, 384;");
        out[threadIdx.x] = 1;
    }
    unsigned rank, x;
    asm volatile("mov.u32 %0, %%cluster_ctarank; mapa.shared::cluster.u32 %1, %0, 1; getctarank.shared::cluster.u32 %1, %1;" : "=r"(rank), "=r"(x));
    out[0] = rank + x;
}
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__global__ void warpgroup(float *d, uint64_t a, uint64_t b) {
    float c[32];
    for (int i = 0; i < 32; i++) c[i] = d[i];
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, -1, 0, 1;\n}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
                 : "l"(a), "l"(b), "r"(threadIdx.x));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 32; i++) d[threadIdx.x * 32 + i] = c[i];
}
__global__ void warpgroup_registers(int *d, uint64_t b, uint4 a) {
    int c[4] = {};
    asm volatile("wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
    d[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}
#endif

#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
__global__ void tensor_memory(float *d, uint64_t a, uint64_t b, unsigned instruction) {
    __shared__ unsigned base;
    __shared__ unsigned long long barrier;
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(shared_address(&base)));
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    __syncthreads();
    unsigned t = base, r[8];
    asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" ::"r"(t), "l"(a));
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %5, %5, %5}, p;\n"
                 "tcgen05.mma.cta_group::1.kind::tf32 [%0], [%0], %2, %3, 1;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%0+64], [%0+72], p;\n}"
                 ::"r"(t), "l"(a), "l"(b), "r"(instruction), "r"(threadIdx.x), "r"(0));
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(&barrier)));
    asm volatile("tcgen05.fence::after_thread_sync;");
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(t));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    asm volatile("tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%0], 16, {%1};\ntcgen05.wait::st.sync.aligned;\ntcgen05.shift.cta_group::1.down [%0];" ::"r"(t), "r"(r[3]));
    for (int i = 0; i < 8; i++) d[threadIdx.x * 8 + i] = __uint_as_float(r[i]);
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(t));
}
__global__ void next_work(uint4 *out) {
    __shared__ alignas(16) uint4 answer;
    __shared__ unsigned long long barrier;
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(shared_address(&answer)), "r"(shared_address(&barrier)));
    unsigned x, y, z, w;
    asm volatile("{\n.reg .b128 a;\n.reg .pred p;\nld.shared.b128 a, [%4];\nclusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a;\nmov.b32 %0, 0;\n"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, %2, _}, a;\nmov.b64 {%1, %3}, 1;\nmov.b32 %2, %1;\n}"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(shared_address(&answer)));
    out[threadIdx.x] = make_uint4(x, y, z, w);
}
__global__ void packed_floats(float2 *d, const float2 *a) {
    unsigned long long x = *(const unsigned long long *)a, y;
    asm("fma.rn.f32x2 %0, %1, %1, %1; add.rz.ftz.f32x2 %0, %0, %1;" : "=l"(y) : "l"(x));
    *(unsigned long long *)d = y;
    float m;
    asm("max.f32 %0, %1, %2, %1; redux.sync.max.abs.f32 %0, %0, 0xffffffff;" : "=f"(m) : "f"(a[1].x), "f"(a[2].y));
    d[1].x = m;
}
#endif
