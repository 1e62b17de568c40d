// D = A B^T for A (M, K), B (N, K), both with K innermost: five ways to divide the work, five types.
#include "engine.cuh"

PRODUCT(product_half, float, "+f", "m64n64k16.f32.f16.f16", ", 1, 1, 0, 0")
PRODUCT(product_bfloat, float, "+f", "m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 0")
PRODUCT(product_tf32, float, "+f", "m64n64k8.f32.tf32.tf32", ", 1, 1")
PRODUCT(product_e4m3, float, "+f", "m64n64k32.f32.e4m3.e4m3", ", 1, 1")
PRODUCT_REGISTERS(product_bytes, int, "+r", "m64n64k32.s32.s8.s8", "")

// Row and column of a thread's register in the 64 x 64 tile of its warpgroup.
ENGINE int row_of(int i) { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * (i >> 1 & 1); }
ENGINE int column_of(int i) { return 8 * (i / 4) + 2 * (threadIdx.x % 4) + (i & 1); }
// A byte of a row of 128, in a tile that is swizzled over 128.
ENGINE int swizzled(int row, int byte) { return row * 128 + (byte ^ (row & 7) << 4); }

// One warpgroup loads, two multiply. Two CTAs, one below the other, share B: each loads half of it for both.
constexpr int STAGES = 3;
struct alignas(1024) Shared {
    __half a[STAGES][128 * 64], b[STAGES][64 * 64], d[2][64 * 64];
    Barrier full[STAGES], empty[STAGES];
};
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
cluster_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap d, int depth) {
    extern __shared__ uint8_t raw[];
    Shared &s = *(Shared *)raw;
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), rank = cluster_rank();
    const int row = blockIdx.x * 128, column = blockIdx.y * 64;
    if (threadIdx.x == 0) {
        prefetch(a), prefetch(b), prefetch(d);
        for (int i = 0; i < STAGES; i++) init(s.full[i], 1), init(s.empty[i], 4);
        fence_init();
    }
    cluster_arrive_relaxed();
    cluster_wait();
    Place<STAGES> at;
    if (group == 0) {
        registers_down<40>();
        if (threadIdx.x / 32 == 0 && elect())
            for (int k = 0; k < depth; k += 64, at.next()) {
                wait_cluster(s.empty[at.stage], at.parity ^ 1);
                expect(s.full[at.stage], sizeof s.a[0] + sizeof s.b[0]);
                load(s.a[at.stage], a, s.full[at.stage], k, row);
                load_multicast(s.b[at.stage] + rank * 32 * 64, b, s.full[at.stage], k, column + rank * 32, 3);
            }
    } else {
        registers_up<232>();
        float sum[32];
        int before = -1;
        for (int k = 0; k < depth; k += 64, at.next()) {
            wait(s.full[at.stage], at.parity);
            products_fence();
            for (int i = 0; i < 4; i++)
                product_half(sum, tile<128>(s.a[at.stage] + (group - 1) * 64 * 64) + 2 * i, tile<128>(s.b[at.stage]) + 2 * i, k + i > 0);
            products_commit();
            products_wait<1>();
            // The products of the stage before are done: both producers may load it again.
            if (before >= 0 && threadIdx.x % 128 < 2) arrive_at(s.empty[before], threadIdx.x % 128);
            before = at.stage;
        }
        products_wait<0>();
        uint8_t *result = (uint8_t *)s.d[group - 1];
        for (int i = 0; i < 32; i += 2)
            *(__half2 *)(result + swizzled(row_of(i), 2 * column_of(i))) = __floats2half2_rn(sum[i], sum[i + 1]);
        proxy_fence();
        named_sync(group, 128);
        if (threadIdx.x % 128 == 0) {
            store(d, result, column, row + (group - 1) * 64);
            commit();
            wait_written<0>();
        }
    }
    cluster_sync();
}

// Two warpgroups take turns: while one multiplies its tile, the other writes the one before.
struct alignas(1024) Turns {
    __nv_bfloat16 a[4][64 * 64], b[4][64 * 64];
    Barrier full[4], empty[4], turn[2];
};
extern "C" __global__ void __launch_bounds__(384, 1)
ping_pong_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *d, int m, int n, int depth) {
    extern __shared__ uint8_t raw[];
    Turns &s = *(Turns *)raw;
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), across = n / 64, tiles = m / 64 * across;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++) init(s.full[i], 1), init(s.empty[i], 128);
        init(s.turn[0], 128), init(s.turn[1], 128);
        fence_init();
    }
    __syncthreads();
    Place<4> at;
    if (group == 0) {
        registers_down<40>();
        if (threadIdx.x == 0)
            for (int t = blockIdx.x; t < tiles; t += gridDim.x)
                for (int k = 0; k < depth; k += 64, at.next()) {
                    wait(s.empty[at.stage], at.parity ^ 1);
                    expect(s.full[at.stage], 2 * sizeof s.a[0]);
                    load(s.a[at.stage], a, s.full[at.stage], k, t / across * 64);
                    load(s.b[at.stage], b, s.full[at.stage], k, t % across * 64);
                }
        return;
    }
    registers_up<232>();
    const int me = group - 1, steps = depth / 64;
    for (int i = 0; i < me * steps; i++) at.next();
    Place<1> turn;
    for (int t = blockIdx.x + me * gridDim.x; t < tiles; t += 2 * gridDim.x, turn.next()) {
        float sum[32];
        // The first turn of the first is free: nobody arrives for it.
        wait(s.turn[me], turn.parity ^ (me == 0));
        for (int k = 0; k < steps; k++, at.next()) {
            wait(s.full[at.stage], at.parity);
            products_fence();
            for (int i = 0; i < 4; i++)
                product_bfloat(sum, tile<128>(s.a[at.stage]) + 2 * i, tile<128>(s.b[at.stage]) + 2 * i, k + i > 0);
            products_commit();
            products_wait<0>();
            arrive(s.empty[at.stage]);
        }
        arrive(s.turn[me ^ 1]);
        for (int i = 0; i < steps; i++) at.next();
        for (int i = 0; i < 32; i += 2)
            *(float2 *)(d + (t / across * 64 + row_of(i)) * n + t % across * 64 + column_of(i)) = make_float2(sum[i], sum[i + 1]);
    }
}

// Every CTA does the same number of steps along K, wherever they lie; what it has of a tile is added to it by the engine.
struct alignas(1024) Stream {
    float a[2][64 * 32], b[2][64 * 32], d[2][64 * 32];
    Barrier full[2];
};
extern "C" __global__ void __launch_bounds__(128)
stream_k_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap d, int across, int steps, int total, int share) {
    extern __shared__ uint8_t raw[];
    Stream &s = *(Stream *)raw;
    const int first = blockIdx.x * share, end = min(first + share, total);
    if (threadIdx.x == 0) init(s.full[0], 1), init(s.full[1], 1), fence_init();
    __syncthreads();
    auto request = [&](int unit) {
        if (threadIdx.x == 0 && unit < end) {
            const int slot = (unit - first) & 1, t = unit / steps, k = unit % steps * 32;
            expect(s.full[slot], 2 * sizeof s.a[0]);
            load(s.a[slot], a, s.full[slot], k, t / across * 64);
            load(s.b[slot], b, s.full[slot], k, t % across * 64);
        }
    };
    request(first), request(first + 1);
    float sum[32];
    bool fresh = true;
    for (int unit = first; unit < end; unit++) {
        const int slot = (unit - first) & 1;
        wait(s.full[slot], (unit - first) >> 1 & 1);
        products_fence();
        for (int i = 0; i < 4; i++) product_tf32(sum, tile<128>(s.a[slot]) + 2 * i, tile<128>(s.b[slot]) + 2 * i, !fresh || i);
        products_commit();
        products_wait<0>();
        fresh = false;
        __syncthreads();
        request(unit + 2);
        if (unit + 1 < end && (unit + 1) % steps) continue;
        if (threadIdx.x == 0) wait_read<0>();
        __syncthreads();
        for (int i = 0; i < 32; i++)
            *(float *)((uint8_t *)s.d[column_of(i) / 32] + swizzled(row_of(i), 4 * (column_of(i) % 32))) = sum[i];
        proxy_fence();
        __syncthreads();
        if (threadIdx.x == 0) {
            const int t = unit / steps;
            add(d, s.d[0], t % across * 64, t / across * 64), add(d, s.d[1], t % across * 64 + 32, t / across * 64);
            commit();
        }
        fresh = true;
    }
    if (threadIdx.x == 0) wait_written<0>();
}

// Eights with a scale for every 128 of K: sums of tensor cores are short, so each 128 are added in f32 outside.
struct alignas(1024) Eights {
    uint8_t a[2][64 * 128], b[2][64 * 128];
    Barrier full[2], empty[2];
};
extern "C" __global__ void __launch_bounds__(160)
scaled_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const float *a_scale, const float *b_scale, __nv_bfloat16 *d, int n, int depth) {
    extern __shared__ uint8_t raw[];
    Eights &s = *(Eights *)raw;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64, steps = depth / 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) init(s.full[i], 1), init(s.empty[i], 1);
        fence_init();
    }
    __syncthreads();
    Place<2> at;
    if (threadIdx.x >= 128) {
        if (elect())
            for (int k = 0; k < steps; k++, at.next()) {
                wait(s.empty[at.stage], at.parity ^ 1);
                expect(s.full[at.stage], 2 * sizeof s.a[0]);
                load(s.a[at.stage], a, s.full[at.stage], k * 128, row);
                load(s.b[at.stage], b, s.full[at.stage], k * 128, column);
            }
        return;
    }
    float total[32] = {}, part[32];
    for (int k = 0; k < steps; k++, at.next()) {
        const float right = __ldg(b_scale + blockIdx.x * steps + k);
        float scale[2];
        for (int i = 0; i < 2; i++) scale[i] = __ldg(a_scale + k * gridDim.y * 64 + row + row_of(2 * i)) * right;
        wait(s.full[at.stage], at.parity);
        products_fence();
        for (int i = 0; i < 4; i++) product_e4m3(part, tile<128>(s.a[at.stage]) + 2 * i, tile<128>(s.b[at.stage]) + 2 * i, i);
        products_commit();
        products_wait<0>();
        named_sync(1, 128);
        if (threadIdx.x == 0) arrive(s.empty[at.stage]);
        for (int i = 0; i < 32; i++) total[i] += scale[i >> 1 & 1] * part[i];
    }
    for (int i = 0; i < 32; i += 2)
        *(__nv_bfloat162 *)(d + (row + row_of(i)) * n + column + column_of(i)) = __floats2bfloat162_rn(total[i], total[i + 1]);
}

// Bytes: A goes through registers, which ldmatrix fills; the sums are scaled down, rounded and clamped to bytes again.
extern "C" __global__ void __launch_bounds__(128)
quantised_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, int *sums, int8_t *d, int n, int depth, float scale) {
    __shared__ alignas(1024) int8_t left[2][64 * 64], right[2][64 * 64];
    __shared__ Barrier full[2];
    const int row = blockIdx.y * 64, column = blockIdx.x * 64, steps = depth / 64;
    auto request = [&](int k) {
        if (threadIdx.x == 0 && k < steps) {
            expect(full[k & 1], 2 * sizeof left[0]);
            load(left[k & 1], a, full[k & 1], k * 64, row);
            load(right[k & 1], b, full[k & 1], k * 64, column);
        }
    };
    if (threadIdx.x == 0) init(full[0], 1), init(full[1], 1), fence_init();
    __syncthreads();
    request(0), request(1);
    int sum[32];
    for (int i = 0; i < 32; i++) sum[i] = 0;
    for (int k = 0; k < steps; k++) {
        wait(full[k & 1], k >> 1 & 1);
        uint32_t x[2][4];
        for (int i = 0; i < 2; i++) {
            // Rows of 64 bytes, swizzled over 64: bits 4 and 5 of a byte's place by bits 7 and 8.
            int r = threadIdx.x / 32 * 16 + threadIdx.x % 16, place = r * 64 + i * 32 + threadIdx.x % 32 / 16 * 16;
            uint32_t from = shared(left[k & 1]) + (place ^ (place >> 3 & 0x30));
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3]) : "r"(from));
        }
        products_fence();
        for (int i = 0; i < 2; i++) product_bytes(sum, x[i], tile<64>(right[k & 1]) + 2 * i);
        products_commit();
        products_wait<0>();
        __syncthreads();
        request(k + 2);
    }
    for (int i = 0; i < 32; i += 2) {
        int place = (row + row_of(i)) * n + column + column_of(i), q[2];
        *(int2 *)(sums + place) = make_int2(sum[i], sum[i + 1]);
        for (int j = 0; j < 2; j++) q[j] = min(max(__float2int_rn(sum[i + j] * scale), -128), 127);
        *(char2 *)(d + place) = make_char2(q[0], q[1]);
    }
}
