// D (M x N, bf16) = A (M x K, f16) times B (N x K, f16) by CTAs that stay: each takes every gridDim.x-th tile of D. While the
// epilogue empties one of two accumulators the tensor core fills the other. D leaves through shared memory, two buffers of 32 rows
// and 64 columns for each warp of the epilogue.
#include "blackwell.cuh"
#include <cuda_bf16.h>

constexpr int M = 128, N = 64, STAGES = 3, EPILOGUE = 4;
constexpr unsigned A = M * 128, B = N * 128, OUT = 32 * 128;

extern "C" __global__ void __launch_bounds__(32 * (EPILOGUE + 2))
    persistent(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap d, int tiles,
               int across, int depth) {
    __shared__ uint64_t full[STAGES], empty[STAGES], filled[2], drained[2];
    __shared__ unsigned slot;
    unsigned stages = dynamic_memory(), out = stages + STAGES * (A + B), warp = warp_index(), lane = threadIdx.x % 32;
    if (warp == EPILOGUE && elected()) {
        for (int i = 0; i < STAGES; i++) init(shared_address(&full[i]), 1), init(shared_address(&empty[i]), 1);
        for (int i = 0; i < 2; i++) init(shared_address(&filled[i]), 1), init(shared_address(&drained[i]), EPILOGUE);
        publish_barriers();
    }
    if (warp == 0) allocate(shared_address(&slot), 2 * N);
    before_sync();
    __syncthreads();
    after_sync();
    unsigned memory = slot;
    if (warp == EPILOGUE) {
        if (elected()) {
            Place at;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
                for (int i = 0; i < depth; i++, at.advance(STAGES)) {
                    unsigned to = stages + at.stage * (A + B), barrier = shared_address(&full[at.stage]);
                    wait(shared_address(&empty[at.stage]), at.parity ^ 1);
                    expect(barrier, A + B);
                    load(to, a, i * 64, tile / across * M, barrier);
                    load(to + A, b, i * 64, tile % across * N, barrier);
                }
        }
    } else if (warp == EPILOGUE + 1) {
        if (elected()) {
            Place at, to;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, to.advance(2)) {
                wait(shared_address(&drained[to.stage]), to.parity ^ 1);
                for (int i = 0; i < depth; i++, at.advance(STAGES)) {
                    unsigned from = stages + at.stage * (A + B);
                    wait(shared_address(&full[at.stage]), at.parity);
                    after_sync();
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        mma<F16>(memory + to.stage * N, matrix(from + 32 * k), matrix(from + A + 32 * k), instruction(1, 0, 0, M, N), i || k);
                    commit(shared_address(&empty[at.stage]));
                }
                commit(shared_address(&filled[to.stage]));
            }
        }
    } else {
        Place from;
        unsigned buffer = out + warp * 2 * OUT;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, from.advance(2)) {
            unsigned to = buffer + from.stage * OUT;
            wait(shared_address(&filled[from.stage]), from.parity);
            after_sync();
            if (lane == 0) stores_have_read<1>();
            __syncwarp();
#pragma unroll 1
            for (int n = 0; n < N; n += 16) {
                unsigned r[16], packed[8];
                load_16(r, memory + (warp << 21) + from.stage * N + n);
                loaded();
                for (int i = 0; i < 8; i++) {
                    __nv_bfloat162 two = __floats2bfloat162_rn(__uint_as_float(r[2 * i]), __uint_as_float(r[2 * i + 1]));
                    packed[i] = *(unsigned *)&two;
                }
                for (int i = 0; i < 2; i++) {
                    unsigned at = to + lane * 128 + ((n / 8 + i) ^ (lane & 7)) * 16;
                    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(packed[4 * i]), "r"(packed[4 * i + 1]),
                                 "r"(packed[4 * i + 2]), "r"(packed[4 * i + 3]) : "memory");
                }
            }
            before_sync();
            for_async_proxy();
            __syncwarp();
            if (lane == 0) {
                arrive(shared_address(&drained[from.stage]));
                store(d, tile % across * N, tile / across * M + 32 * warp, to);
                commit_stores();
            }
        }
        if (lane == 0) stores_are_done<0>();
    }
    __syncthreads();
    if (warp == 0) release(memory, 2 * N);
}
