// Copies by the engine: rings, reductions in memory, swizzles, halos; in the words of CUDA's own headers where they have them.
#include "engine.cuh"
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
namespace ptx = cuda::ptx;

// Copies through a ring of four pieces: one thread keeps loads and stores in flight.
extern "C" __global__ void ring_copy(const uint8_t *x, uint8_t *out, int bytes) {
    __shared__ alignas(128) uint8_t ring[4][512];
    __shared__ uint64_t full[4];
    if (threadIdx.x) return;
    for (int i = 0; i < 4; i++) ptx::mbarrier_init(full + i, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    const int first = blockIdx.x * 4096, last = min(bytes, first + 4096);
    auto request = [&](int piece) {
        const int at = first + piece * 512, size = min(512, last - at);
        if (size <= 0) return;
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full + piece % 4, size);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, ring[piece % 4], x + at, size, full + piece % 4);
    };
    for (int piece = 0; piece < 3; piece++) request(piece);
    for (int piece = 0; first + piece * 512 < last; piece++) {
        while (!ptx::mbarrier_try_wait_parity(full + piece % 4, piece / 4 & 1, 1000)) {}
        const int at = first + piece * 512;
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + at, ring[piece % 4], min(512, last - at));
        ptx::cp_async_bulk_commit_group();
        // The piece before has been read: its place takes the one three ahead.
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<1>());
        request(piece + 3);
    }
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}

// Every CTA adds, takes the least and the greatest, and joins bits, in global memory.
extern "C" __global__ void bulk_reductions(const unsigned *x, unsigned *sums, int *least, unsigned long long *most, unsigned *bits, __half *halves, __nv_bfloat16 *bfloats) {
    __shared__ alignas(128) unsigned values[256];
    const int t = threadIdx.x;
    values[t] = x[blockIdx.x * 256 + t];
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        using namespace ptx;
        cp_reduce_async_bulk(space_global, space_shared, op_add, sums, values, 1024);
        cp_reduce_async_bulk(space_global, space_shared, op_min, least, (const int *)values, 1024);
        cp_reduce_async_bulk(space_global, space_shared, op_max, (uint64_t *)most, (const uint64_t *)values, 1024);
        cp_reduce_async_bulk(space_global, space_shared, op_xor_op, bits, values, 512);
        cp_reduce_async_bulk(space_global, space_shared, op_and_op, bits + 128, values + 128, 256);
        cp_reduce_async_bulk(space_global, space_shared, op_inc, bits + 192, values + 192, 256);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read(n32_t<0>());
    }
    __syncthreads();
    // Small multiples of a quarter: exact in halves of both kinds, in every order.
    ((__half *)values)[t] = __float2half(0.25f * (x[blockIdx.x * 256 + t] % 32));
    ((__nv_bfloat16 *)values)[256 + t] = __float2bfloat16(0.25f * (x[blockIdx.x * 256 + t] % 16));
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, halves, (const __half *)values, 512);
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_max, bfloats, (const __nv_bfloat16 *)values + 256, 512);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}

// Sums of the CTAs of a cluster at the first of them: everybody's row is added to its row by the engine.
extern "C" __global__ void __cluster_dims__(4, 1, 1) sums_at_first(const int *x, int *out) {
    __shared__ alignas(128) int row[128], total[128];
    __shared__ Barrier bar;
    const unsigned rank = cluster_rank();
    row[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    total[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        init(bar, 1), fence_init();
        if (rank == 0) expect(bar, 4 * 512);
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    cluster_sync();
    if (threadIdx.x == 0)
        asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32 [%0], [%1], 512, [%2];" ::"r"(map_to(shared(total), 0)), "r"(shared(row)), "r"(map_to(shared(&bar), 0)) : "memory");
    if (rank == 0) {
        wait_cluster(bar, 0);
        out[blockIdx.x / 4 * 128 + threadIdx.x] = total[threadIdx.x];
    }
    cluster_sync();
}

// Tiles of 32 x 32 words, transposed between two maps that swizzle: no thread meets another in its bank.
extern "C" __global__ void transpose(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(1024) uint8_t from[4096], to[4096];
    __shared__ Barrier bar;
    if (threadIdx.x + threadIdx.y == 0) {
        init(bar, 1), fence_init();
        expect(bar, 4096);
        load(from, x, bar, blockIdx.x * 32, blockIdx.y * 32);
    }
    __syncthreads();
    wait(bar, 0);
    for (int row = threadIdx.y; row < 32; row += blockDim.y) {
        const int column = threadIdx.x % 32, swizzled = row * 128 + (column * 4 ^ (row & 7) << 4), other = column * 128 + (row * 4 ^ (column & 7) << 4);
        *(uint32_t *)(to + swizzled) = *(uint32_t *)(from + other);
    }
    proxy_fence();
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) store(out, to, blockIdx.y * 32, blockIdx.x * 32), commit(), wait_read<0>();
}

// Seven points of a volume: boxes with a halo, zeros beyond the edges; the next box comes while this one is worked on.
extern "C" __global__ void __launch_bounds__(128) stencil(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap out, int depth) {
    struct alignas(128) Box {
        float at[3][6][24];
    };
    __shared__ Box box[2];
    __shared__ alignas(128) float result[4][16];
    __shared__ Barrier full[2];
    const int i = threadIdx.x % 16, j = threadIdx.x / 16;
    if (threadIdx.x == 0) init(full[0], 1), init(full[1], 1), fence_init();
    __syncthreads();
    auto request = [&](int z) {
        if (threadIdx.x == 0 && z < depth) {
            expect(full[z & 1], sizeof box[0].at);
            load(&box[z & 1], x, full[z & 1], (int)blockIdx.x * 16 - 4, (int)blockIdx.y * 4 - 1, z - 1);
        }
    };
    request(0);
    for (int z = 0; z < depth; z++) {
        request(z + 1);
        wait(full[z & 1], z >> 1 & 1);
        if (threadIdx.x == 0) wait_read<0>();
        __syncthreads();
        if (j < 4) {
            auto &b = box[z & 1].at;
            result[j][i] = b[1][j + 1][i + 4] * -6 + b[1][j + 1][i + 3] + b[1][j + 1][i + 5] + b[1][j][i + 4] + b[1][j + 2][i + 4] + b[0][j + 1][i + 4] + b[2][j + 1][i + 4];
        }
        proxy_fence();
        __syncthreads();
        if (threadIdx.x == 0) store(out, result, blockIdx.x * 16, blockIdx.y * 4, z), commit();
    }
    if (threadIdx.x == 0) wait_read<0>();
}

// Rows of a table by their numbers: every lane requests one, with a policy for the cache. The grid before may still write.
extern "C" __global__ void gather_rows(const float *table, const int *index, float *out, int count) {
    __shared__ alignas(128) float rows[32][32];
    __shared__ Barrier bar;
    const int lane = threadIdx.x, at = blockIdx.x * 32 + lane;
    if (lane == 0) init(bar, 32), fence_init();
    __syncwarp();
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (at < count) {
        expect(bar, 128);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], 128, [%2], %3;" ::"r"(shared(rows[lane])), "l"(__cvta_generic_to_global(table + index[at] * 32)), "r"(shared(&bar)), "l"(policy) : "memory");
    } else
        arrive(bar);
    wait(bar, 0);
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    for (int row = 0; row < 32; row++) {
        float value = rows[row][lane ^ row];
        if (blockIdx.x * 32 + row < count) out[(blockIdx.x * 32 + row) * 32 + (lane ^ row)] = value * value;
    }
}

// Ordinary asynchronous copies that arrive on a barrier when they are done: two warps fill, two read what these have filled.
extern "C" __global__ void __launch_bounds__(128) filled(const uint4 *x, uint4 *out, int rounds) {
    __shared__ uint4 room[2][64];
    __shared__ Barrier full[2], empty[2];
    const int t = threadIdx.x % 64;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++) init(full[i], 64), init(empty[i], 64);
    __syncthreads();
    Place<2> at;
    for (int round = 0; round < rounds; round++, at.next())
        if (threadIdx.x < 64) {
            wait(empty[at.stage], at.parity ^ 1);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared(room[at.stage] + t)), "l"(__cvta_generic_to_global(x + round * 64 + t)) : "memory");
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared(full + at.stage)) : "memory");
        } else {
            wait(full[at.stage], at.parity);
            uint4 mine = room[at.stage][t], other = room[at.stage][t ^ 33];
            arrive(empty[at.stage]);
            out[round * 64 + t] = make_uint4(mine.x + other.w, mine.y ^ other.z, mine.z - other.y, mine.w & other.x);
        }
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// libcu++: a barrier that counts bytes, and a pipeline that the threads of a block share.
extern "C" __global__ void block_pipeline(const int *x, int *out, int batches) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(128) int whole[256], batch[3][128];
    __shared__ barrier bar;
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 3> state;
    auto block = cooperative_groups::this_thread_block();
    if (threadIdx.x == 0) init(&bar, blockDim.x), ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::device::memcpy_async_tx(whole, x, cuda::aligned_size_t<16>(sizeof whole), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof whole);
    } else
        token = bar.arrive();
    auto pipeline = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int done = 0, asked = 0; done < batches; done++) {
        for (; asked < batches && asked < done + 3; asked++) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, batch[asked % 3], x + asked * 128, cuda::aligned_size_t<16>(512), pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        sum = sum * 5 + batch[done % 3][threadIdx.x ^ 37];
        pipeline.consumer_release();
    }
    bar.wait(std::move(token));
    out[blockIdx.x * 128 + threadIdx.x] = sum + whole[threadIdx.x] * whole[255 - threadIdx.x];
}
