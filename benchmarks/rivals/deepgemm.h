// What DeepGEMM's library does before a launch: tensor maps, shared memory, clusters.

#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <deep_gemm/common/types.cuh>

using deep_gemm::GemmType;

constexpr int kSMs = 132;
constexpr int kLoadThreads = 128;
constexpr int kSwizzle = 128;  // of A's and B's rows of a stage, which are as long
constexpr int kUnknownProblem = -1;

struct Kernel {
    const void* function;
    GemmType type;
    int groups, M, N, K, rows, columns, swizzle, threads, multicast, shared;

    bool is(int type_, int groups_, int M_, int N_, int K_) const {
        return int(type) == type_ && groups == groups_ && M == M_ && N == N_ && K == K_;
    }
    // Groups of which A and D have slabs.
    int64_t slabs() const { return type == GemmType::MGroupedMasked ? groups : 1; }
};

using Encode = decltype(&cuTensorMapEncodeTiled);

inline Encode encoder() {
    static Encode found = [] {
        void* pointer = nullptr;
        cudaDriverEntryPointQueryResult result;
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &pointer, 12000, cudaEnableDefault, &result);
        return reinterpret_cast<Encode>(result == cudaDriverEntryPointSuccess ? pointer : nullptr);
    }();
    return found;
}

// A map of outer rows of inner elements, of which a box takes box_inner, or what the swizzle spans, x box_outer.
inline int describe(CUtensorMap* map, void* start, CUtensorMapDataType type, int bytes, int64_t inner, int64_t outer,
                    int box_inner, int box_outer, int swizzle) {
    if (!encoder()) return cudaErrorSymbolNotFound;
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

inline int describe_operands(const Kernel& kernel, CUtensorMapDataType type, int bytes, void* a, void* b, void* d,
                             CUtensorMap* map_a, CUtensorMap* map_b, CUtensorMap* map_d) {
    const int64_t rows = kernel.M * kernel.slabs(), columns = int64_t(kernel.N) * kernel.groups;
    const auto out = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    int fault = describe(map_a, a, type, bytes, kernel.K, rows, 0, kernel.rows, kSwizzle);
    fault |= describe(map_b, b, type, bytes, kernel.K, columns, 0, kernel.columns, kSwizzle);
    fault |= describe(map_d, d, out, 2, kernel.N, rows, kernel.columns, kernel.rows, kernel.swizzle);
    return fault;
}

inline int launch(const Kernel& kernel, void** arguments, void* stream) {
    const auto most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if (auto status = cudaFuncSetAttribute(kernel.function, most, kernel.shared); status != cudaSuccess) return status;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {unsigned(kernel.multicast), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = kSMs;
    config.blockDim = kernel.threads;
    config.dynamicSmemBytes = kernel.shared;
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &cluster;
    config.numAttrs = kernel.multicast > 1;
    return cudaLaunchKernelExC(&config, kernel.function, arguments);
}
