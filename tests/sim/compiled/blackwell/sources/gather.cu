// D[rows[i]] = X[rows[i]] times W, for 128 of the rows of X (f16, of 64): the rows come one by one, four to a copy, and the products
// (f32, 32 columns) go back to the same rows of D.
#include "blackwell.cuh"

extern "C" __global__ void __launch_bounds__(128)
    gather(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, const __grid_constant__ CUtensorMap d, const int4 *rows) {
    constexpr unsigned A = 128 * 128, B = 32 * 128;
    __shared__ uint64_t full, done;
    __shared__ unsigned slot;
    unsigned room = dynamic_memory(), warp = warp_index(), lane = threadIdx.x % 32;
    if (warp == 1) allocate(shared_address(&slot), 32);
    if (warp == 0 && elected()) {
        init(shared_address(&full), 1), init(shared_address(&done), 1);
        publish_barriers();
    }
    before_sync();
    __syncthreads();
    after_sync();
    unsigned memory = slot;
    int4 four = rows[lane];
    if (warp == 0) {
        if (elected()) {
            expect(shared_address(&full), A + B);
            load(room + A, w, 0, 0, shared_address(&full));
        }
        __syncwarp();
        asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(room + lane * 512),
                     "l"(&x), "r"(0), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w), "r"(shared_address(&full)) : "memory");
        __syncwarp();
        if (elected()) {
            wait(shared_address(&full), 0);
            after_sync();
#pragma unroll
            for (int k = 0; k < 4; k++) mma<F16>(memory, matrix(room + 32 * k), matrix(room + A + 32 * k), instruction(1, 0, 0, 128, 32), k);
            commit(shared_address(&done));
        }
        __syncwarp();
    }
    wait(shared_address(&done), 0);
    after_sync();
    unsigned mine = room + threadIdx.x * 128;
    for (int n = 0; n < 32; n += 16) {
        unsigned r[16];
        load_16(r, memory + (warp << 21) + n);
        loaded();
        for (int i = 0; i < 16; i += 4)
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(mine + (((n + i) / 4) ^ (lane & 7)) * 16), "r"(r[i]), "r"(r[i + 1]),
                         "r"(r[i + 2]), "r"(r[i + 3]) : "memory");
    }
    before_sync();
    for_async_proxy();
    __syncthreads();
    if (warp == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(&d), "r"(0), "r"(four.x),
                     "r"(four.y), "r"(four.z), "r"(four.w), "r"(room + lane * 512) : "memory");
        commit_stores();
        stores_are_done<0>();
    }
    if (warp == 1) release(memory, 32);
}
