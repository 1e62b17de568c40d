// Cooperative groups, and the standard library's barriers, pipelines and atomics.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/tuple>

namespace cg = cooperative_groups;

__global__ void tiles(int *x) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int sum = cg::reduce(tile, x[block.thread_rank()], cg::plus<int>());
    int before = cg::exclusive_scan(tile, sum);
    auto active = cg::coalesced_threads();
    if (tile.any(before > 3)) before += tile.shfl_down(before, 1) + active.size();
    auto labels = cg::labeled_partition(tile, before & 1);
    block.sync();
    x[block.thread_rank()] = sum + before + labels.meta_group_rank() + tile.match_any(sum);
}
__global__ void grid_wide(int *x) {
    auto grid = cg::this_grid();
    x[grid.thread_rank()]++;
    grid.sync();
    x[grid.thread_rank()] += x[(grid.thread_rank() + 1) % grid.size()];
}
__global__ void group_copy(const float *in, float *out) {
    extern __shared__ float stage[];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, stage, in, sizeof(float) * 256);
    cg::wait(block);
    out[block.thread_rank()] = stage[255 - block.thread_rank()];
}
#if __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(4, 1, 1) cluster_group(int *x) {
    __shared__ int mine;
    auto cluster = cg::this_cluster();
    mine = cluster.block_rank();
    cluster.sync();
    int *other = cluster.map_shared_rank(&mine, (mine + 1) % cluster.num_blocks());
    x[threadIdx.x] = *other;
    cluster.sync();
}
#endif
__global__ void barriers(int *x, int n) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(8) char room[sizeof(Barrier)];
    Barrier &barrier = *reinterpret_cast<Barrier *>(room);
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    for (int i = 0; i < n; i++) {
        auto token = barrier.arrive();
        x[threadIdx.x] += i;
        barrier.wait(std::move(token));
    }
}
__global__ void pipelines(const int4 *in, int4 *out, int n) {
    __shared__ int4 stage[2][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipeline = cuda::make_pipeline(cg::this_thread_block(), &state);
    for (int i = 0; i < n + 1; i++) {
        if (i < n) {
            pipeline.producer_acquire();
            cuda::memcpy_async(&stage[i & 1][threadIdx.x], &in[i * 128 + threadIdx.x], cuda::aligned_size_t<16>(16), pipeline);
            pipeline.producer_commit();
        }
        if (i) {
            pipeline.consumer_wait();
            out[(i - 1) * 128 + threadIdx.x] = stage[i - 1 & 1][127 - threadIdx.x];
            pipeline.consumer_release();
        }
    }
}
__global__ void atomics_of_scopes(int *x, float *y) {
    cuda::atomic_ref<int, cuda::thread_scope_device> a(x[0]);
    cuda::atomic_ref<int, cuda::thread_scope_block> b(x[1]);
    cuda::atomic_ref<float, cuda::thread_scope_system> c(*y);
    a.fetch_add(3, cuda::memory_order_release);
    b.store(a.load(cuda::memory_order_acquire), cuda::memory_order_relaxed);
    int expected = 5;
    while (!a.compare_exchange_weak(expected, expected + 1)) {}
    c.fetch_max(2.5f);
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
}
__global__ void standard_library(float *x) {
    cuda::std::complex<float> a(x[0], x[1]);
    cuda::std::array<float, 4> b = {x[2], x[3], x[4], x[5]};
    auto [first, second] = cuda::std::make_tuple(a * a, cuda::std::abs(a));
    x[6] = first.real() + second + b[threadIdx.x & 3];
}
