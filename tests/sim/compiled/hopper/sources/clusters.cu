// What the CTAs of a cluster do together: sums, histograms, scans and sorts through each other's shared memory.
#include "engine.cuh"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// A row over four CTAs: each has a quarter of it, and all read each other's maximum and sum.
extern "C" __global__ void __cluster_dims__(4, 1, 1) softmax(const float *x, float *out, int width) {
    __shared__ float parts[4], most, total;
    cg::cluster_group cluster = cg::this_cluster();
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    const int piece = width / 4, base = blockIdx.y * width + cluster.block_rank() * piece;
    float value = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < piece; i += blockDim.x) value = fmaxf(value, x[base + i]);
    value = cg::reduce(warp, value, cg::greater<float>());
    if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = value;
    block.sync();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 4; i++) value = fmaxf(value, parts[i]);
        most = value;
    }
    cluster.sync();
    for (unsigned r = 0; r < cluster.num_blocks(); r++) value = fmaxf(value, *cluster.map_shared_rank(&most, r));
    for (int i = threadIdx.x; i < piece; i += blockDim.x) sum += exp2f((x[base + i] - value) * 1.4426950408889634f);
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = sum;
    block.sync();
    if (threadIdx.x == 0) total = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    cluster.sync();
    sum = 0;
    for (unsigned r = 0; r < cluster.num_blocks(); r++) sum += *cluster.map_shared_rank(&total, r);
    for (int i = threadIdx.x; i < piece; i += blockDim.x) out[base + i] = exp2f((x[base + i] - value) * 1.4426950408889634f) / sum;
    cluster.sync();
}

// The bins of a histogram lie spread over the cluster; every CTA counts into all of them.
extern "C" __global__ void __cluster_dims__(2, 1, 1) histogram(const int *x, int *out, int n, int bins) {
    extern __shared__ int counts[];
    cg::cluster_group cluster = cg::this_cluster();
    const int here = bins / cluster.num_blocks();
    for (int i = threadIdx.x; i < here; i += blockDim.x) counts[i] = 0;
    cluster.sync();
    for (int i = cluster.thread_rank(); i < n; i += cluster.num_threads()) {
        const int bin = min(max(x[blockIdx.y * n + i], 0), bins - 1);
        atomicAdd(cluster.map_shared_rank(counts, bin / here) + bin % here, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < here; i += blockDim.x) atomicAdd(out + cluster.block_rank() * here + i, counts[i]);
}

// Running sums over a cluster: every CTA sends its total to those behind it, through the engine, and waits for those before.
extern "C" __global__ void __cluster_dims__(4, 1, 1) scan(const unsigned *x, unsigned *out) {
    __shared__ unsigned warps[4], before[4];
    __shared__ Barrier arrived;
    const unsigned rank = cluster_rank(), at = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        init(arrived, 1), fence_init();
        expect(arrived, rank * 4);
    }
    cluster_sync();
    unsigned sum = x[at];
    for (int step = 1; step < 32; step *= 2) {
        const unsigned below = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += below;
    }
    if (lane == 31) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    for (unsigned w = 0; w < threadIdx.x / 32; w++) sum += warps[w];
    const unsigned total = warps[0] + warps[1] + warps[2] + warps[3];
    if (threadIdx.x > rank && threadIdx.x < 4)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(map_to(shared(before + rank), threadIdx.x)), "r"(total), "r"(map_to(shared(&arrived), threadIdx.x)) : "memory");
    wait_cluster(arrived, 0);
    for (unsigned r = 0; r < rank; r++) sum += before[r];
    out[at] = sum;
    cluster_sync();
}

// A ring of CTAs: everybody's values go round once. Two slots; who has read a slot tells the one that fills it. Meanwhile all
// take the greatest of what the cluster holds, by reductions that arrive on a barrier.
extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(const int4 *x, int *sums, int *most) {
    __shared__ int4 slot[2][64];
    __shared__ int greatest[64];
    __shared__ Barrier full[2], empty[2], counted;
    const unsigned rank = cluster_rank(), next = (rank + 1) % 4, previous = (rank + 3) % 4, t = threadIdx.x;
    if (t == 0) {
        for (int i = 0; i < 2; i++) init(full[i], 1), init(empty[i], 64);
        init(counted, 1), expect(counted, 4 * 64 * 4);
        fence_init();
    }
    greatest[t] = INT_MIN;
    cluster_sync();
    int4 value = x[blockIdx.x * 64 + t];
    for (unsigned r = 0; r < 4; r++)
        asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 [%0], %1, [%2];" ::"r"(map_to(shared(greatest + t), r)), "r"(value.x), "r"(map_to(shared(&counted), r)) : "memory");
    int sum = 0;
    for (int step = 0; step < 3; step++) {
        const int s = step & 1;
        if (step >= 2) wait_cluster(empty[s], 0);
        if (t == 0) expect(full[s], sizeof slot[0]);
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(map_to(shared(slot[s] + t), next)), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(map_to(shared(full + s), next)) : "memory");
        wait_cluster(full[s], step >> 1);
        value = slot[s][t];
        arrive_at(empty[s], previous);
        sum = sum * 3 + (value.x ^ value.y) + value.z * value.w;
    }
    wait_cluster(counted, 0);
    sums[blockIdx.x * 64 + t] = sum, most[blockIdx.x * 64 + t] = greatest[t];
    cluster_sync();
}

// RMSNorm of a row in each CTA. The weights come once for the cluster: each of the two loads half of them into both.
extern "C" __global__ void __cluster_dims__(2, 1, 1) rms_norm(const float *x, const float *weights, float *out, int width, float epsilon) {
    extern __shared__ float room[];
    __shared__ Barrier bar;
    __shared__ float parts[4];
    float *row = room, *w = room + width;
    const unsigned rank = cluster_rank();
    if (threadIdx.x == 0) init(bar, 1), fence_init();
    cluster_sync();
    if (threadIdx.x == 0) {
        expect(bar, width * 8);
        load(row, x + blockIdx.x * width, width * 4, bar);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(shared(w + rank * width / 2)), "l"(__cvta_generic_to_global(weights + rank * width / 2)), "r"(width * 2), "r"(shared(&bar)), "h"((short)3) : "memory");
    }
    wait(bar, 0);
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += 128) sum += row[i] * row[i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    const float factor = __frsqrt_rn((parts[0] + parts[1] + parts[2] + parts[3]) / width + epsilon);
    for (int i = threadIdx.x; i < width; i += 128) row[i] *= factor * w[i];
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) store(out + blockIdx.x * width, row, width * 4), commit(), wait_read<0>();
    cluster_sync();
}

// A sort over the shared memory of two CTAs: each exchanges with the other where the distance is more than a CTA has.
extern "C" __global__ void __cluster_dims__(2, 1, 1) sort(const unsigned *x, unsigned *out) {
    __shared__ unsigned values[128];
    cg::cluster_group cluster = cg::this_cluster();
    const unsigned at = cluster.thread_rank(), t = threadIdx.x;
    unsigned *theirs = cluster.map_shared_rank(values, cluster.block_rank() ^ 1), mine = x[blockIdx.y * 256 + at];
    values[t] = mine;
    for (unsigned size = 2; size <= 256; size *= 2)
        for (unsigned step = size / 2; step; step /= 2) {
            step >= 128 ? cluster.sync() : __syncthreads();
            const unsigned other = step >= 128 ? theirs[t] : values[t ^ step];
            mine = ((at & step) == 0) == ((at & size) == 0) ? min(mine, other) : max(mine, other);
            step >= 128 ? cluster.sync() : __syncthreads();
            values[t] = mine;
        }
    out[blockIdx.y * 256 + at] = mine;
    cluster.sync();
}
