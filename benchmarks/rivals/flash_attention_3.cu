// FlashAttention-3's forward for one head dim and one type, with a C interface.  Built by build.py.

#include "flash_attention_3.h"
#include "flash_fwd_launch_template.h"

// With FLASHATTENTION_DISABLE_VARLEN no kernel reaches it.
void prepare_varlen_num_blocks(Flash_fwd_params&, cudaStream_t, bool, int, int, bool) {}

// q, k, v: of ELEMENT, a type of cutlass; o: bf16.  In e4m3 their factors are one.
// q, o: [B, Sq, H, D]; k, v: [B, Sk, Hk, D]; lse: f32 [B, H, Sq]; semaphore: 4 bytes, used where causal.
// sms: how many multiprocessors the device has.  Returns the last error of the runtime, 0 for none.
extern "C" __attribute__((visibility("default"))) int fa3_forward(
    void* q, void* k, void* v, void* o, void* lse, void* semaphore, int B, int Sq, int Sk, int H, int Hk, int causal,
    int sms, void* stream_) {
    auto stream = static_cast<cudaStream_t>(stream_);
    Flash_fwd_params params = {};
    fill(params, q, k, v, o, lse, B, Sq, Sk, H, Hk, HEAD_DIM, causal, sms, sizeof(ELEMENT) == 1);
    params.varlen_sort_batches = true;
    params.head_swizzle = causal;
    if (causal) {
        params.tile_count_semaphore = static_cast<int*>(semaphore);
        cudaMemsetAsync(semaphore, 0, sizeof(int), stream);
    }
    run_mha_fwd_<90, ELEMENT, HEAD_DIM, HEAD_DIM, false, false, false, false>(params, stream);
    return cudaGetLastError();
}
