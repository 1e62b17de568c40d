// What FlashAttention-3's own call sets for arrays [B, S, H, D] of bf16, contiguous, without splits, pages,
// windows or lengths; narrow: for Q, K and V of e4m3 with factors of one, and O of bf16.

#pragma once

#include <cmath>

#include "cutlass/fast_math.h"
#include "flash.h"

inline void fill(Flash_fwd_params& params, void* q, void* k, void* v, void* o, void* lse, int B, int Sq, int Sk, int H,
                 int Hk, int D, int causal, int sms, bool narrow = false) {
    params.is_bf16 = !narrow;
    params.is_e4m3 = narrow;
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
    params.arch = 90;
    params.num_sm = sms;
}
