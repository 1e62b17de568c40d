// FlashAttention-3's forward for one head dim, with a C interface: what its mha_fwd sets up for arrays
// [B, S, H, D] of bf16, contiguous, without splits, pages, windows or lengths.  Built by build.py.

#include <cmath>

#include "flash_fwd_launch_template.h"

// With FLASHATTENTION_DISABLE_VARLEN no kernel reaches it.
void prepare_varlen_num_blocks(Flash_fwd_params&, cudaStream_t, bool, int, int, bool) {}

// q, o: [B, Sq, H, D]; k, v: [B, Sk, Hk, D]; lse: f32 [B, H, Sq]; semaphore: 4 bytes, used where causal.
// Returns the last error of the runtime, 0 for none; sms: how many multiprocessors the device has.
extern "C" __attribute__((visibility("default"))) int fa3_forward(
    void* q, void* k, void* v, void* o, void* lse, void* semaphore, int B, int Sq, int Sk, int H, int Hk, int causal,
    int sms, void* stream_) {
    constexpr int D = HEAD_DIM;
    auto stream = static_cast<cudaStream_t>(stream_);
    Flash_fwd_params params = {};
    params.is_bf16 = true;
    params.q_ptr = q;
    params.k_ptr = k;
    params.v_ptr = v;
    params.o_ptr = o;
    params.softmax_lse_ptr = lse;
    params.q_row_stride = params.o_row_stride = int64_t(H) * D;
    params.k_row_stride = params.v_row_stride = int64_t(Hk) * D;
    params.q_head_stride = params.k_head_stride = params.v_head_stride = params.o_head_stride = D;
    params.v_dim_stride = 1;
    params.q_batch_stride = params.o_batch_stride = int64_t(Sq) * H * D;
    params.k_batch_stride = params.v_batch_stride = int64_t(Sk) * Hk * D;
    params.b = params.b_k = B;
    params.h = H;
    params.h_k = Hk;
    params.seqlen_q = Sq;
    params.seqlen_k = Sk;
    params.seqlen_q_rounded = cutlass::round_up(Sq, 128);
    params.seqlen_k_rounded = cutlass::round_up(Sk, 128);
    params.total_q = B * Sq;
    params.total_k = B * Sk;
    params.d = params.d_rounded = params.dv = params.dv_rounded = D;
    params.scale_softmax = float(1.0 / std::sqrt(double(D)));
    params.p_dropout = 1.f;
    params.p_dropout_in_uint8_t = 255;
    params.rp_dropout = 1.f;
    params.is_causal = causal;
    params.window_size_left = Sk - 1;
    params.window_size_right = causal ? 0 : Sq - 1;
    params.page_size = 1;
    params.num_splits = 1;
    params.varlen_sort_batches = true;
    params.head_swizzle = causal;
    params.arch = 90;
    params.num_sm = sms;
    if (causal) {
        params.tile_count_semaphore = static_cast<int*>(semaphore);
        cudaMemsetAsync(semaphore, 0, sizeof(int), stream);
    }
    run_mha_fwd_<90, cutlass::bfloat16_t, D, D, false, false, false, false>(params, stream);
    return cudaGetLastError();
}
