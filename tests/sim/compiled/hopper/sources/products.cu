// Products inside larger kernels: attention, a convolution, groups of products whose tensor maps are made on the device.
#include "engine.cuh"

PRODUCT(scores_of, float, "+f", "m64n64k16.f32.f16.f16", ", 1, 1, 0, 0")
PRODUCT_REGISTERS(weighted, float, "+f", "m64n64k16.f32.f16.f16", ", 1, 1, 1")
PRODUCT(product_bfloat, float, "+f", "m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 0")

ENGINE int row_of(int i) { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * (i >> 1 & 1); }
ENGINE int column_of(int i) { return 8 * (i / 4) + 2 * (threadIdx.x % 4) + (i & 1); }
ENGINE float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
ENGINE uint32_t packed(float low, float high) {
    __half2 both = __floats2half2_rn(low, high);
    return *(uint32_t *)&both;
}

// Attention of 64 wide heads: one warp loads, two warpgroups have 64 queries each. Keys and values go round two stages;
// the weights stay in registers, which are A of the second product; values are B with their rows along K.
struct alignas(1024) Heads {
    __half q[2][64 * 64], k[2][64 * 64], v[2][64 * 64];
    Barrier queries, keys[2], values[2], keys_free[2], values_free[2];
};
template <bool CAUSAL> ENGINE void attend(const CUtensorMap &q, const CUtensorMap &k, const CUtensorMap &v, const CUtensorMap &out, int n, float scale) {
    extern __shared__ uint8_t raw[];
    Heads &s = *(Heads *)raw;
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), first = blockIdx.x * 128, head = blockIdx.y;
    const int end = CAUSAL ? min(n, first + 128) : n;
    if (threadIdx.x == 0) {
        init(s.queries, 1);
        for (int i = 0; i < 2; i++) init(s.keys[i], 1), init(s.values[i], 1), init(s.keys_free[i], 2), init(s.values_free[i], 2);
        fence_init();
    }
    __syncthreads();
    Place<2> at;
    if (group == 2) {
        registers_down<24>();
        if (threadIdx.x == 256) {
            expect(s.queries, sizeof s.q);
            load(s.q[0], q, s.queries, 0, first, head), load(s.q[1], q, s.queries, 0, first + 64, head);
            for (int start = 0; start < end; start += 64, at.next()) {
                wait(s.keys_free[at.stage], at.parity ^ 1);
                expect(s.keys[at.stage], sizeof s.k[0]);
                load(s.k[at.stage], k, s.keys[at.stage], 0, start, head);
                wait(s.values_free[at.stage], at.parity ^ 1);
                expect(s.values[at.stage], sizeof s.v[0]);
                load(s.v[at.stage], v, s.values[at.stage], 0, start, head);
            }
        }
        return;
    }
    registers_up<240>();
    float result[32] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};
    wait(s.queries, 0);
    for (int start = 0; start < end; start += 64, at.next()) {
        float x[32], keep[2];
        wait(s.keys[at.stage], at.parity);
        products_fence();
        for (int i = 0; i < 4; i++) scores_of(x, tile<128>(s.q[group]) + 2 * i, tile<128>(s.k[at.stage]) + 2 * i, i);
        products_commit();
        products_wait<0>();
        named_sync(1 + group, 128);
        if (threadIdx.x % 128 == 0) arrive(s.keys_free[at.stage]);
        for (int half = 0; half < 2; half++) {
            float higher = most[half];
            for (int i = 0; i < 32; i++)
                if ((i >> 1 & 1) == half) {
                    if (CAUSAL && start + column_of(i) > first + group * 64 + row_of(i)) x[i] = -INFINITY;
                    higher = fmaxf(higher, x[i]);
                }
            higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 1));
            higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 2));
            const float base = higher == -INFINITY ? 0 : higher * scale;
            keep[half] = power_of_two(most[half] * scale - base);
            most[half] = higher, total[half] *= keep[half];
            for (int i = 0; i < 32; i++)
                if ((i >> 1 & 1) == half) total[half] += x[i] = power_of_two(x[i] * scale - base);
        }
        for (int i = 0; i < 32; i++) result[i] *= keep[i >> 1 & 1];
        uint32_t weights[4][4];
        for (int i = 0; i < 16; i++) weights[i / 4][i % 4] = packed(x[2 * i], x[2 * i + 1]);
        wait(s.values[at.stage], at.parity);
        products_fence();
        for (int i = 0; i < 4; i++) weighted(result, weights[i], tile<128>(s.v[at.stage] + i * 16 * 64));
        products_commit();
        products_wait<0>();
        named_sync(1 + group, 128);
        if (threadIdx.x % 128 == 0) arrive(s.values_free[at.stage]);
    }
    // The queries are read: their place is the result's, row by row under the swizzle of the map.
    uint8_t *place = (uint8_t *)s.q[group];
    for (int half = 0; half < 2; half++) {
        total[half] += __shfl_xor_sync(~0u, total[half], 1);
        total[half] += __shfl_xor_sync(~0u, total[half], 2);
        total[half] = 1 / total[half];
    }
    for (int i = 0; i < 32; i += 2) {
        const int r = row_of(i);
        *(uint32_t *)(place + r * 128 + (2 * column_of(i) ^ (r & 7) << 4)) = packed(result[i] * total[i >> 1 & 1], result[i + 1] * total[i >> 1 & 1]);
    }
    proxy_fence();
    named_sync(1 + group, 128);
    if (threadIdx.x % 128 == 0) store(out, place, 0, first + group * 64, head), commit(), wait_read<0>();
}
extern "C" __global__ void __launch_bounds__(384, 1)
attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap out, int n, float scale) {
    attend<false>(q, k, v, out, n, scale);
}
extern "C" __global__ void __launch_bounds__(384, 1)
causal_attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap out, int n, float scale) {
    attend<true>(q, k, v, out, n, scale);
}

// Convolution 3 x 3 of images (n, h, w, 32 channels) without a copy of the patches: the engine reads 64 pixels at an offset,
// zeros beyond the edge, and they are the rows of A. Filters (64, 9 * 32) are B.
extern "C" __global__ void __launch_bounds__(128)
convolution(const __grid_constant__ CUtensorMap images, const __grid_constant__ CUtensorMap filters, const float *bias, float *out, int height, int width) {
    __shared__ alignas(1024) __nv_bfloat16 a[3][64 * 32], b[3][64 * 32];
    __shared__ Barrier full[3];
    const int first = blockIdx.x * 64, n = first / (height * width), y = first / width % height, x = first % width;
    auto request = [&](int tap) {
        if (threadIdx.x == 0 && tap < 9) {
            Barrier &bar = full[tap % 3];
            expect(bar, 2 * sizeof a[0]);
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared(a[tap % 3])), "l"(&images), "r"(shared(&bar)), "r"(0), "r"(x - 1), "r"(y - 1), "r"(n), "h"((short)(tap % 3)), "h"((short)(tap / 3)) : "memory");
            load(b[tap % 3], filters, bar, tap * 32, 0);
        }
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < 3; i++) init(full[i], 1);
        fence_init();
    }
    __syncthreads();
    request(0), request(1);
    float sum[32];
    for (int i = 0; i < 32; i++) sum[i] = bias[column_of(i)];
    for (int tap = 0; tap < 9; tap++) {
        wait(full[tap % 3], tap / 3 & 1);
        pin(sum);
        products_fence();
        for (int i = 0; i < 2; i++) product_bfloat(sum, tile<64>(a[tap % 3]) + 2 * i, tile<64>(b[tap % 3]) + 2 * i);
        products_commit();
        products_wait<0>();
        __syncthreads();
        request(tap + 2);
    }
    for (int i = 0; i < 32; i += 2)
        *(float2 *)(out + (first + row_of(i)) * 64 + column_of(i)) = make_float2(fmaxf(sum[i], 0), fmaxf(sum[i + 1], 0));
}

// Products of several sizes: `rows` has the rows of each group's A. A CTA copies the map of all of A to shared memory, replaces
// address and extents by its group's, and puts it where the engine may read it: rows of other groups are outside.
extern "C" __global__ void __launch_bounds__(128)
grouped_gemm(const __grid_constant__ CUtensorMap all, const __grid_constant__ CUtensorMap b, const __nv_bfloat16 *a, const int *rows, CUtensorMap *maps, float *d, int depth) {
    __shared__ alignas(1024) __nv_bfloat16 left[64 * 64], right[64 * 64];
    __shared__ alignas(128) CUtensorMap edited;
    __shared__ Barrier full;
    const int group = blockIdx.y, steps = depth / 64;
    int before = 0;
    for (int g = 0; g < group; g++) before += rows[g];
    const int here = rows[group], row = blockIdx.x * 64;
    if (row >= here) return;
    CUtensorMap *map = maps + blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x < 32) {
        ((uint32_t *)&edited)[threadIdx.x] = ((const uint32_t *)&all)[threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) {
            const uint32_t e = shared(&edited);
            asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(e), "l"(a + before * depth) : "memory");
            asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(e), "r"(here) : "memory");
            asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(e), "l"((uint64_t)depth * 2) : "memory");
        }
        __syncwarp();
        asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(map), "r"(shared(&edited)) : "memory");
    }
    if (threadIdx.x == 0) init(full, 1), fence_init();
    __syncthreads();
    float sum[32];
    for (int k = 0; k < steps; k++) {
        if (threadIdx.x == 0) {
            asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
            expect(full, 2 * sizeof left);
            load(left, *map, full, k * 64, row);
            load(right, b, full, k * 64, group * 64);
        }
        wait(full, k & 1);
        products_fence();
        for (int i = 0; i < 4; i++) product_bfloat(sum, tile<128>(left) + 2 * i, tile<128>(right) + 2 * i, k + i > 0);
        products_commit();
        products_wait<0>();
        __syncthreads();
    }
    for (int i = 0; i < 32; i++)
        if (row + row_of(i) < here) d[(before + row + row_of(i)) * 64 + column_of(i)] = sum[i];
}
