// DeepGEMM's fp8 kernels of the listed problems, with a C interface: the tensor maps and the launch that its
// library makes.  deepgemm_instances.inc, with a KERNEL line for each problem, is written by build.py.

#include <cuda.h>
#include <cuda_runtime.h>

#include <deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh>

using namespace deep_gemm;

namespace {

constexpr int kBlockK = 128;
constexpr int kSMs = 132;
constexpr int kLoadThreads = 128;
constexpr int kUnknownProblem = -1;

struct Kernel {
    const void* function;
    GemmType type;
    int groups, M, N, K, rows, columns, swizzle, threads, multicast, shared;
};

#define KERNEL(TYPE, GROUPS, M_, N_, K_, ROWS, COLUMNS, SWIZZLE, STAGES, MATH, MULTICAST, ON_A, SHARED)            \
    {reinterpret_cast<const void*>(                                                                                \
         &sm90_fp8_gemm_1d2d_impl<cute::UMMA::Major::K, 0, N_, K_, GROUPS, ROWS, COLUMNS, kBlockK, 128, 128,       \
                                  SWIZZLE, STAGES, kLoadThreads, MATH, MULTICAST, ON_A, kSMs, GemmType::TYPE,      \
                                  cutlass::bfloat16_t, epilogue::transform::EpilogueIdentity>),                    \
     GemmType::TYPE, GROUPS, M_, N_, K_, ROWS, COLUMNS, SWIZZLE, kLoadThreads + MATH, MULTICAST, SHARED},
const Kernel kKernels[] = {
#include "deepgemm_instances.inc"
};
#undef KERNEL

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode encoder() {
    static Encode found = [] {
        void* pointer = nullptr;
        cudaDriverEntryPointQueryResult result;
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &pointer, 12000, cudaEnableDefault, &result);
        return reinterpret_cast<Encode>(result == cudaDriverEntryPointSuccess ? pointer : nullptr);
    }();
    return found;
}

// A map of outer rows of inner elements, of which a box takes box_inner x box_outer.
int describe(CUtensorMap* map, void* start, CUtensorMapDataType type, int bytes, int64_t inner, int64_t outer,
             int box_inner, int box_outer, int swizzle) {
    const cuuint64_t sizes[2] = {cuuint64_t(inner), cuuint64_t(outer)};
    const cuuint64_t strides[1] = {cuuint64_t(inner) * bytes};
    const cuuint32_t box[2] = {cuuint32_t(swizzle ? swizzle / bytes : box_inner), cuuint32_t(box_outer)};
    const cuuint32_t steps[2] = {1, 1};
    const auto mode = swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                      : swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                      : swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                      : CU_TENSOR_MAP_SWIZZLE_NONE;
    return encoder()(map, type, 2, start, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, mode,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace

// type: a GemmType. a: [M, K], masked [groups, M, K]; b: [groups, N, K]; sfa: [K / 128, M rounded up to 4],
// masked [groups, ...]; sfb: [groups, N / 128, K / 128]; layout: the group of each row, masked the rows of each
// group; d: as a, N columns.  Returns -1 if the problem was not compiled, else an error of CUDA's, 0 for none.
extern "C" __attribute__((visibility("default"))) int deepgemm_fp8(int type, int groups, int M, int N, int K, void* a, void* sfa, void* b,
                                                                   void* sfb, void* layout, void* d, void* stream) {
    for (const Kernel& kernel : kKernels) {
        if (int(kernel.type) != type || kernel.groups != groups || kernel.M != M || kernel.N != N || kernel.K != K)
            continue;
        if (!encoder()) return cudaErrorSymbolNotFound;
        const int64_t slabs = kernel.type == GemmType::MGroupedMasked ? groups : 1;
        const int padded = (M + 3) / 4 * 4;
        const int scales = (K + kBlockK - 1) / kBlockK;
        CUtensorMap map_a, map_b, map_d, map_sfa;
        int fault = describe(&map_a, a, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, K, M * slabs, kBlockK, kernel.rows, 128);
        fault |= describe(&map_b, b, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, K, int64_t(N) * groups, kBlockK, kernel.columns, 128);
        fault |= describe(&map_d, d, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, N, M * slabs, kernel.columns, kernel.rows,
                          kernel.swizzle);
        fault |= describe(&map_sfa, sfa, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, padded, scales * slabs, kernel.rows, 1, 0);
        if (fault) return cudaErrorInvalidValue;

        auto status = cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared);
        if (status != cudaSuccess) return status;
        cudaLaunchAttribute cluster;
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {unsigned(kernel.multicast), 1, 1};
        cudaLaunchConfig_t launch = {};
        launch.gridDim = kSMs;
        launch.blockDim = kernel.threads;
        launch.dynamicSmemBytes = kernel.shared;
        launch.stream = static_cast<cudaStream_t>(stream);
        launch.attrs = &cluster;
        launch.numAttrs = kernel.multicast > 1;
        unsigned m = M, n = N, k = K;
        void* arguments[] = {&sfb, &layout, &m, &n, &k, &map_a, &map_b, &map_d, &map_sfa};
        return cudaLaunchKernelExC(&launch, kernel.function, arguments);
    }
    return kUnknownProblem;
}
