// Reductions of a warp and of a block: shuffles, redux, cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

template <class T> static __device__ T warp_sum(T x) {
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

extern "C" __global__ void warp_shuffles(const int *in, long long *sums, float *floats, int *moved) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    int x = in[at];
    sums[at] = warp_sum((long long)x << 20 | lane);
    floats[at] = warp_sum(x * 0.25f);
    int down = __shfl_down_sync(~0u, x, 5), up = __shfl_up_sync(~0u, x, 3, 16), from = __shfl_sync(~0u, x, x, 8);
    moved[at] = down + 3 * up - 7 * from;
    if (lane % 3 == 1) {
        unsigned some = __activemask();
        moved[at] += __shfl_sync(some, x, 4) ^ __popc(some);
    }
}

extern "C" __global__ void warp_redux(const int *in, unsigned *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int x = in[at];
    unsigned odds = __ballot_sync(~0u, x & 1), mask = x & 1 ? odds : ~odds;
    int sum = __reduce_add_sync(mask, x), least = __reduce_min_sync(mask, x), most = __reduce_max_sync(mask, x);
    unsigned u = x, all = __reduce_and_sync(mask, u | 0xff), any = __reduce_or_sync(mask, u), odd = __reduce_xor_sync(mask, u);
    out[at * 4] = sum + least;
    out[at * 4 + 1] = most ^ all;
    out[at * 4 + 2] = any - odd;
    out[at * 4 + 3] = __reduce_max_sync(mask, u) + __reduce_min_sync(mask, u) * 3 + mask;
}

// The lanes meet in a vote and in a shuffle that stand in both branches.
extern "C" __global__ void apart(const int *in, unsigned *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, x = in[at];
    unsigned mask = x & 1 ? __ballot_sync(~0u, x & 1) : ~__ballot_sync(~0u, x & 1);
    out[at] = mask + __reduce_add_sync(mask, x);
    if (x & 2) out[at] += __shfl_xor_sync(~0u, x, 1);
    else out[at] ^= __shfl_xor_sync(~0u, x * 3, 1);
}

template <class T> static __device__ T block_sum(T x) {
    __shared__ T partial[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    x = warp_sum(x);
    if (lane == 0) partial[warp] = x;
    __syncthreads();
    if (warp == 0) {
        x = lane < blockDim.x / 32 ? partial[lane] : T(0);
        x = warp_sum(x);
    }
    return x;
}

extern "C" __global__ void block_sums(const float *in, double *out, float *narrow, int n) {
    double total = 0;
    float sum = 0;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
        total += in[at] * 0.5;
        sum = fmaf(in[at], in[at], sum);
    }
    total = block_sum(total);
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = total, narrow[blockIdx.x] = sum;
}

extern "C" __global__ void group_reductions(const int *in, int *out, float *floats) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(warp);
    int at = block.group_index().x * block.size() + block.thread_rank();
    int x = in[at];
    int sum = cg::reduce(warp, x, cg::plus<int>());
    int most = cg::reduce(tile, x, cg::greater<int>());
    float least = cg::reduce(tile, x * 0.5f, cg::less<float>());
    if (x % 3) {
        cg::coalesced_group some = cg::coalesced_threads();
        sum += cg::reduce(some, x, cg::bit_xor<int>()) + some.thread_rank() * 100 + some.size();
    }
    auto parted = cg::labeled_partition(warp, x & 3);
    sum ^= cg::reduce(parted, x, cg::plus<int>()) << 1;
    block.sync();
    out[at] = sum + most * tile.meta_group_rank() + tile.shfl(x, 2);
    floats[at] = least;
}
