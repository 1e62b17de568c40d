// DeepGEMM's fp8 kernels of the listed problems, with a C interface.  deepgemm_instances.inc, with a KERNEL line
// for each problem, is written by build.py.

#include "deepgemm.h"

#include <deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh>

using namespace deep_gemm;

namespace {

constexpr int kBlockK = 128;

#define KERNEL(TYPE, GROUPS, M_, N_, K_, ROWS, COLUMNS, SWIZZLE, STAGES, MATH, MULTICAST, ON_A, SHARED)            \
    {reinterpret_cast<const void*>(                                                                                \
         &sm90_fp8_gemm_1d2d_impl<cute::UMMA::Major::K, 0, N_, K_, GROUPS, ROWS, COLUMNS, kBlockK, kSwizzle,       \
                                  kSwizzle, SWIZZLE, STAGES, kLoadThreads, MATH, MULTICAST, ON_A, kSMs,            \
                                  GemmType::TYPE, cutlass::bfloat16_t, epilogue::transform::EpilogueIdentity>),    \
     GemmType::TYPE, GROUPS, M_, N_, K_, ROWS, COLUMNS, SWIZZLE, kLoadThreads + MATH, MULTICAST, SHARED},
const Kernel kKernels[] = {
#include "deepgemm_instances.inc"
};
#undef KERNEL

}  // namespace

// type: a GemmType. a: [M, K], masked [groups, M, K]; b: [groups, N, K]; sfa: [K / 128, M rounded up to 4],
// masked [groups, ...]; sfb: [groups, N / 128, K / 128]; layout: the group of each row, masked the rows of each
// group; d: as a, N columns.  Returns -1 if the problem was not compiled, else an error of CUDA's, 0 for none.
extern "C" __attribute__((visibility("default"))) int deepgemm_fp8(
    int type, int groups, int M, int N, int K, void* a, void* sfa, void* b, void* sfb, void* layout, void* d,
    void* stream) {
    for (const Kernel& kernel : kKernels) {
        if (!kernel.is(type, groups, M, N, K)) continue;
        CUtensorMap map_a, map_b, map_d, map_sfa;
        const auto e4m3 = CU_TENSOR_MAP_DATA_TYPE_UINT8, f32 = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
        int fault = describe_operands(kernel, e4m3, 1, a, b, d, &map_a, &map_b, &map_d);
        const int64_t scales = (K + kBlockK - 1) / kBlockK * kernel.slabs();
        fault |= describe(&map_sfa, sfa, f32, 4, (M + 3) / 4 * 4, scales, kernel.rows, 1, 0);
        if (fault) return cudaErrorInvalidValue;
        unsigned m = M, n = N, k = K;
        void* arguments[] = {&sfb, &layout, &m, &n, &k, &map_a, &map_b, &map_d, &map_sfa};
        return launch(kernel, arguments, stream);
    }
    return kUnknownProblem;
}
