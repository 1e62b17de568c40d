// O (n x 64, f16) = softmax(Q K^T scale) V: a CTA for each 128 rows of Q, blocks of 64 keys. Scores, weights and the sum of values lie
// in tensor memory; the weights, written there as f16, are the A of the second product.
//
//     warps 0..3   a row of scores each thread: its maximum, weights to tensor memory, earlier sums brought to the new maximum
//     warp 4       copies Q, then keys and values, two stages
//     warp 5       scores = Q K^T -> (s_full) -> the others -> (p_full) -> sums += weights V
#include "blackwell.cuh"
#include <cuda_fp16.h>

constexpr int ROWS = 128, KEYS = 64, WIDTH = 64, STAGES = 2;
constexpr unsigned Q = ROWS * 128, KV = KEYS * 128, SCORES = 0, WEIGHTS = 64, SUMS = 128, COLUMNS = 256;

__device__ static void mma_weights(unsigned d, unsigned a, uint64_t b, unsigned what, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}" ::"r"(d), "r"(a),
                 "l"(b), "r"(what), "r"((unsigned)add) : "memory");
}

__device__ static float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

extern "C" __global__ void __launch_bounds__(192)
    attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, __half *out,
              int blocks, float scale) {
    __shared__ uint64_t q_full, full[STAGES], empty[STAGES], s_full, p_full, done;
    __shared__ unsigned slot;
    unsigned rows = dynamic_memory(), stages = rows + Q, warp = warp_index();
    if (warp == 4 && elected()) {
        for (int i = 0; i < STAGES; i++) init(shared_address(&full[i]), 1), init(shared_address(&empty[i]), 1);
        init(shared_address(&q_full), 1), init(shared_address(&s_full), 1), init(shared_address(&p_full), ROWS);
        init(shared_address(&done), 1);
        publish_barriers();
    }
    if (warp == 5) allocate(shared_address(&slot), COLUMNS);
    before_sync();
    __syncthreads();
    after_sync();
    unsigned memory = slot;
    if (warp == 4) {
        if (elected()) {
            expect(shared_address(&q_full), Q);
            load(rows, q, 0, blockIdx.x * ROWS, shared_address(&q_full));
            Place at;
            for (int j = 0; j < blocks; j++, at.advance(STAGES)) {
                unsigned to = stages + at.stage * 2 * KV, barrier = shared_address(&full[at.stage]);
                wait(shared_address(&empty[at.stage]), at.parity ^ 1);
                expect(barrier, 2 * KV);
                load(to, k, 0, j * KEYS, barrier);
                load(to + KV, v, 0, j * KEYS, barrier);
            }
        }
    } else if (warp == 5) {
        if (elected()) {
            wait(shared_address(&q_full), 0);
            Place at;
            for (int j = 0; j < blocks; j++, at.advance(STAGES)) {
                unsigned from = stages + at.stage * 2 * KV;
                wait(shared_address(&full[at.stage]), at.parity);
                after_sync();
#pragma unroll
                for (int i = 0; i < WIDTH / 16; i++)
                    mma<F16>(memory + SCORES, matrix(rows + 32 * i), matrix(from + 32 * i), instruction(1, 0, 0, ROWS, KEYS), i);
                commit(shared_address(&s_full));
                wait(shared_address(&p_full), j & 1);
                after_sync();
#pragma unroll
                for (int i = 0; i < KEYS / 16; i++)
                    mma_weights(memory + SUMS, memory + WEIGHTS + 8 * i, matrix(from + KV + 2048 * i),
                                instruction(1, 0, 0, ROWS, WIDTH) | B_ALONG_N, j || i);
                commit(shared_address(&empty[at.stage]));
            }
            commit(shared_address(&done));
        }
    } else {
        unsigned mine = memory + (warp << 21);
        float most = -INFINITY, total = 0;
        for (int j = 0; j < blocks; j++) {
            float score[KEYS];
            wait(shared_address(&s_full), j & 1);
            after_sync();
#pragma unroll
            for (int n = 0; n < KEYS; n += 16) load_16(*(unsigned(*)[16])(score + n), mine + SCORES + n);
            loaded();
            float higher = most;
#pragma unroll
            for (int n = 0; n < KEYS; n++) higher = fmaxf(higher, score[n] * scale);
            float keep = exp2_of(most - higher);
            most = higher, total *= keep;
            unsigned weights[KEYS / 2];
#pragma unroll
            for (int n = 0; n < KEYS; n += 2) {
                float x = exp2_of(score[n] * scale - most), y = exp2_of(score[n + 1] * scale - most);
                __half2 two = __floats2half2_rn(x, y);
                total += x + y;
                weights[n / 2] = *(unsigned *)&two;
            }
#pragma unroll
            for (int n = 0; n < KEYS / 2; n += 16) store_16(mine + WEIGHTS + n, *(unsigned(*)[16])(weights + n));
            if (j) {
#pragma unroll 1
                for (int n = 0; n < WIDTH; n += 16) {
                    unsigned r[16];
                    load_16(r, mine + SUMS + n);
                    loaded();
                    for (int i = 0; i < 16; i++) r[i] = __float_as_uint(__uint_as_float(r[i]) * keep);
                    store_16(mine + SUMS + n, r);
                }
            }
            stored();
            before_sync();
            arrive(shared_address(&p_full));
        }
        wait(shared_address(&done), 0);
        after_sync();
        __half *to = out + (blockIdx.x * ROWS + threadIdx.x) * WIDTH;
#pragma unroll 1
        for (int n = 0; n < WIDTH; n += 16) {
            unsigned r[16];
            load_16(r, mine + SUMS + n);
            loaded();
            for (int i = 0; i < 16; i++) to[n + i] = __float2half(__uint_as_float(r[i]) / total);
        }
        before_sync();
    }
    __syncthreads();
    if (warp == 5) release(memory, COLUMNS);
}
