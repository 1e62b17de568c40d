// Cooperative groups: tiles, scans over coalesced threads, barriers in shared memory.
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;

extern "C" __global__ void tiled(const int *in, int *out) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    auto four = cg::tiled_partition<4>(tile);
    int at = block.group_index().x * block.num_threads() + block.thread_rank(), x = in[at];
    int sum = tile.shfl_xor(x, 9) + tile.shfl_down(x, 3) * 2 + four.shfl(x, 1) * 4;
    sum += tile.ballot(x > 0) + four.any(x > 40) * 8 + four.all(x > 10) * 16;
    sum += tile.match_any(x & 3) * 32;
    sum ^= cg::inclusive_scan(tile, x) << 4;
    sum += cg::exclusive_scan(four, x, cg::bit_xor<int>());
    auto halves = cg::binary_partition(tile, x & 1);
    sum += halves.size() * 1000 + halves.thread_rank() * 100;
    out[at] = sum + tile.meta_group_rank() + four.meta_group_size();
}

extern "C" __global__ void barrier_object(const int *in, int *out, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> turn;
    __shared__ int values[128];
    cg::thread_block block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&turn, block.size());
    block.sync();
    int t = threadIdx.x;
    values[t] = in[t];
    for (int i = 0; i < rounds; i++) {
        turn.wait(turn.arrive());
        int next = values[(t * 5 + i) % 128] * 3 + values[t];
        turn.arrive_and_wait();
        values[t] = next;
    }
    out[t] = values[t];
}
