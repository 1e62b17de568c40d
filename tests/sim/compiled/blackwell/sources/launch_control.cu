// CTAs that take the place of others: whoever has done a tile asks for a CTA that has not started, and does that one's tile. A warp
// asks, ahead of the work, into a ring of two answers; the others read and do y = 2 x + tile.
#include "blackwell.cuh"

constexpr int ANSWERS = 2, WORKERS = 3;

extern "C" __global__ void __launch_bounds__(32 * (WORKERS + 1)) launch_control(const float *x, float *y, unsigned *tiles) {
    __shared__ alignas(16) uint4 answers[ANSWERS];
    __shared__ uint64_t full[ANSWERS], empty[ANSWERS];
    unsigned warp = warp_index(), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < ANSWERS; i++) init(shared_address(&full[i]), 1), init(shared_address(&empty[i]), WORKERS);
        publish_barriers();
    }
    __syncthreads();
    Place at;
    unsigned tile = blockIdx.x + gridDim.x * blockIdx.y;
    bool more = true;
    while (more) {
        unsigned answer = shared_address(&answers[at.stage]), barrier = shared_address(&full[at.stage]);
        if (warp == WORKERS && elected()) {
            wait(shared_address(&empty[at.stage]), at.parity ^ 1);
            expect(barrier, 16);
            asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(answer), "r"(barrier)
                         : "memory");
        }
        __syncwarp();
        if (warp < WORKERS) {
            for (unsigned i = warp * 32 + lane; i < 128; i += 32 * WORKERS) y[tile * 128 + i] = 2 * x[tile * 128 + i] + tile;
            if (warp == 0 && lane == 0) atomicAdd(&tiles[tile], 1);
        }
        wait(barrier, at.parity);
        unsigned column, row, one;
        asm volatile("{\n.reg .b128 answer;\n.reg .pred p;\nld.shared.b128 answer, [%3];\n"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\nselp.u32 %2, 1, 0, p;\n"
                     "mov.u32 %0, 0;\nmov.u32 %1, 0;\n"
                     "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer;\n"
                     "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %1, answer;\n}"
                     : "=r"(column), "=r"(row), "=r"(one) : "r"(answer) : "memory");
        // The answer has been read: the next one may be written there, by the proxy of copies.
        for_async_proxy();
        __syncwarp();
        if (warp < WORKERS && lane == 0) arrive(shared_address(&empty[at.stage]));
        more = one, tile = column + gridDim.x * row;
        at.advance(ANSWERS);
    }
}
