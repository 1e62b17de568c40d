// DeepGEMM's bf16 kernels of the listed problems, with a C interface.  deepgemm_bf16_instances.inc, with a KERNEL
// line for each problem, is written by build.py.

#include "deepgemm.h"

#include <deep_gemm/impls/sm90_bf16_gemm.cuh>

using namespace deep_gemm;

namespace {

constexpr int kBlockK = 64;

#define KERNEL(TYPE, GROUPS, M_, N_, K_, ROWS, COLUMNS, SWIZZLE, STAGES, MATH, MULTICAST, ON_A, SHARED)            \
    {reinterpret_cast<const void*>(                                                                                \
         &sm90_bf16_gemm_impl<cute::UMMA::Major::K, cute::UMMA::Major::K, 0, N_, K_, GROUPS, ROWS, COLUMNS,        \
                              kBlockK, kSwizzle, kSwizzle, SWIZZLE, STAGES, kLoadThreads, MATH, MULTICAST, ON_A,   \
                              kSMs, GemmType::TYPE, false, cutlass::bfloat16_t>),                                  \
     GemmType::TYPE, GROUPS, M_, N_, K_, ROWS, COLUMNS, SWIZZLE, kLoadThreads + MATH, MULTICAST, SHARED},
const Kernel kKernels[] = {
#include "deepgemm_bf16_instances.inc"
};
#undef KERNEL

}  // namespace

// As deepgemm_fp8, without scales.
extern "C" __attribute__((visibility("default"))) int deepgemm_bf16(
    int type, int groups, int M, int N, int K, void* a, void* b, void* layout, void* d, void* stream) {
    for (const Kernel& kernel : kKernels) {
        if (!kernel.is(type, groups, M, N, K)) continue;
        CUtensorMap map_a, map_b, map_d;
        const auto bf16 = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        if (describe_operands(kernel, bf16, 2, a, b, d, &map_a, &map_b, &map_d)) return cudaErrorInvalidValue;
        unsigned m = M, n = N, k = K;
        void* arguments[] = {&layout, &m, &n, &k, &map_a, &map_b, &map_d};
        return launch(kernel, arguments, stream);
    }
    return kUnknownProblem;
}
