// FlashAttention-3's backward for one head dim, with a C interface.  Built by build.py.

#include "static_switch.h"

// The choices that the project makes with it at run time: groups of heads, and a fixed order of sums. Neither.
#undef BOOL_SWITCH
#define BOOL_SWITCH(COND, CONST_NAME, ...)         \
    [&] {                                          \
        constexpr static bool CONST_NAME = false;  \
        return __VA_ARGS__();                      \
    }()

#include "flash_attention_3.h"
#include "flash_bwd_launch_template.h"

// Rows of a block of queries, as the project's mha_bwd has them; Sq is rounded up to them in scratch arrays.
extern "C" __attribute__((visibility("default"))) int fa3_rows(int causal) {
    return HEAD_DIM == 64 ? 128 : causal ? 64 : 80;
}

// q, k, v, o, dout, dq, dk, dv: [B, S, H, D]; lse: f32 [B, H, S]; sums, logs: f32 [B, H, R], where R is S rounded
// up to fa3_rows; accumulators: f32 [B, H, R, D]; semaphores: [R / rows, B, H] of 4 bytes.  Returns as fa3_forward.
extern "C" __attribute__((visibility("default"))) int fa3_backward(
    void* q, void* k, void* v, void* o, void* lse, void* dout, void* dq, void* dk, void* dv, void* sums, void* logs,
    void* accumulators, void* semaphores, int B, int S, int H, int causal, int sms, void* stream) {
    Flash_bwd_params params = {};
    fill(params, q, k, v, o, lse, B, S, S, H, H, HEAD_DIM, causal, sms);
    params.seqlen_q_rounded = cutlass::round_up(S, fa3_rows(causal));
    params.do_ptr = dout;
    params.dq_ptr = dq;
    params.dk_ptr = dk;
    params.dv_ptr = dv;
    params.do_row_stride = params.dq_row_stride = params.dk_row_stride = params.dv_row_stride = params.q_row_stride;
    params.do_head_stride = params.dq_head_stride = params.dk_head_stride = params.dv_head_stride = HEAD_DIM;
    params.do_batch_stride = params.dq_batch_stride = params.dk_batch_stride = params.dv_batch_stride =
        params.q_batch_stride;
    params.dsoftmax_sum = sums;
    params.softmax_lse_log2_ptr = logs;
    params.dq_accum_ptr = accumulators;
    params.dq_semaphore = static_cast<int*>(semaphores);
    auto run = [&](auto dim) {
        auto to = static_cast<cudaStream_t>(stream);
        if constexpr (dim() == 64) run_mha_bwd_hdim64<90, cutlass::bfloat16_t, false>(params, to);
        if constexpr (dim() == 128) run_mha_bwd_hdim128<90, cutlass::bfloat16_t, false>(params, to);
    };
    run(cute::Int<HEAD_DIM>{});
    return cudaGetLastError();
}
