/* The part of the CUDA runtime and driver that host programs of libraries call, without a GPU.
 *
 * Memory of the device is memory of the process. Everything that needs a decision (memory, module images,
 * launches, tensor maps) goes to the hooks, which `device.py` sets before it loads a host program; queries answer
 * with the properties of one device; all work is done when a call returns, so waiting does nothing. */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hooks {
    void *(*allocate)(size_t bytes);
    void (*release)(void *start);
    void (*copy)(void *to, const void *from, size_t bytes);
    void (*fill)(void *to, int value, size_t bytes);
    void (*load)(void *module, const void *image);
    int (*launch)(void *module, const char *name, const unsigned *extents, size_t smem, void **args);
    int (*encode)(void *map, int type, unsigned rank, void *start, const cuuint64_t *dims,
                  const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
                  const int *modes, const int *lower, const int *upper);
    int major, minor, multiprocessors;
};

static struct hooks hooks;

void fake_cuda_connect(const struct hooks *given) { hooks = *given; }

/* --- programs that end the process ----------------------------------------------------------------- */

static jmp_buf before_main;
static int exit_code;

/* A program linked with --wrap=exit ends here, and its process goes on. */
void __wrap_exit(int code) {
    exit_code = code;
    longjmp(before_main, 1);
}

int fake_cuda_main(int (*program)(int, char **), int count, char **words) {
    return setjmp(before_main) ? exit_code : program(count, words);
}

/* --- modules and kernels --------------------------------------------------------------------------- */

struct kernel {
    void *module;
    const void *stub;
    char *name;
    struct kernel *next;
};

static struct kernel *kernels;

static struct kernel *add_kernel(void *module, const void *stub, const char *name) {
    struct kernel *kernel = malloc(sizeof *kernel);
    *kernel = (struct kernel){module, stub, strdup(name), kernels};
    kernels = kernel;
    return kernel;
}

static struct kernel *find_kernel(const void *stub) {
    struct kernel *kernel = kernels;
    while (kernel && kernel->stub != stub && (const void *)kernel != stub)
        kernel = kernel->next;
    return kernel;
}

void **__cudaRegisterFatBinary(void *image) {
    void **module = malloc(sizeof *module);
    *module = image;
    hooks.load(module, image);
    return module;
}
void __cudaRegisterFatBinaryEnd(void **module) {}
void __cudaUnregisterFatBinary(void **module) {}
char __cudaInitModule(void **module) { return 1; }
void __cudaRegisterVar(void **module, char *host, char *address, const char *name, int ext, size_t size,
                       int constant, int global) {}
void __cudaRegisterFunction(void **module, const char *stub, char *function, const char *name, int limit,
                            void *tid, void *bid, void *block, void *grid, int *warps) {
    add_kernel(module, stub, name);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *a, void **b, unsigned c,
                               CUlibraryOption *d, void **e, unsigned f) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    char *text = calloc(size + 1, 1);
    rewind(file);
    size_t got = fread(text, 1, size, file);
    fclose(file);
    *library = (CUlibrary)text;
    hooks.load(text, text);
    return got == (size_t)size ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
CUresult cuLibraryUnload(CUlibrary library) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
    *count = 1;
    return CUDA_SUCCESS;
}
CUresult cuLibraryEnumerateKernels(CUkernel *found, unsigned count, CUlibrary library) {
    *found = (CUkernel)add_kernel(library, NULL, "");
    return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return CUDA_SUCCESS;
}

/* --- launches -------------------------------------------------------------------------------------- */

static int launch(const void *stub, const unsigned *extents, size_t smem, void **args) {
    struct kernel *kernel = find_kernel(stub);
    return kernel ? hooks.launch(kernel->module, kernel->name, extents, smem, args)
                  : cudaErrorInvalidDeviceFunction;
}

static int launch_grid(const void *stub, dim3 grid, dim3 block, void **args, size_t smem) {
    unsigned extents[9] = {grid.x, grid.y, grid.z, block.x, block.y, block.z, 1, 1, 1};
    return launch(stub, extents, smem, args);
}

static struct {
    dim3 grid, block;
    size_t smem;
    void *stream;
} call;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t smem, void *stream) {
    call.grid = grid, call.block = block, call.smem = smem, call.stream = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *smem, void *stream) {
    *grid = call.grid, *block = call.block, *smem = call.smem, *(void **)stream = call.stream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
    *kernel = (cudaKernel_t)find_kernel(stub);
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t smem,
                               cudaStream_t stream) {
    return launch_grid(kernel, grid, block, args, smem);
}
cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args, size_t smem,
                             cudaStream_t stream) {
    return launch_grid(stub, grid, block, args, smem);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub, void **args) {
    dim3 grid = config->gridDim, block = config->blockDim;
    unsigned extents[9] = {grid.x, grid.y, grid.z, block.x, block.y, block.z, 1, 1, 1};
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
            memcpy(extents + 6, &config->attrs[i].val.clusterDim, 3 * sizeof *extents);
    return launch(stub, extents, config->dynamicSmemBytes, args);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **args, void **extra) {
    unsigned extents[9] = {config->gridDimX,  config->gridDimY,  config->gridDimZ,
                           config->blockDimX, config->blockDimY, config->blockDimZ, 1, 1, 1};
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            memcpy(extents + 6, &config->attrs[i].value.clusterDim, 3 * sizeof *extents);
    return launch(function, extents, config->sharedMemBytes, args);
}

/* --- memory ---------------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **start, size_t bytes) {
    *start = hooks.allocate(bytes);
    return *start ? cudaSuccess : cudaErrorMemoryAllocation;
}
/* The host writes to such memory without a call, so all of it counts as written. */
cudaError_t cudaMallocManaged(void **start, size_t bytes, unsigned flags) {
    cudaError_t error = cudaMalloc(start, bytes);
    if (error == cudaSuccess)
        hooks.fill(*start, 0, bytes);
    return error;
}
cudaError_t cudaFree(void *start) {
    if (start)
        hooks.release(start);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **start, size_t bytes) {
    *start = malloc(bytes);
    return *start ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *start) {
    free(start);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    hooks.copy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    hooks.fill(to, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    return cudaMemset(to, value, bytes);
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *start) {
    memset(attributes, 0, sizeof *attributes);
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = attributes->hostPointer = (void *)start;
    return cudaSuccess;
}

/* --- tensor maps ----------------------------------------------------------------------------------- */

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *start,
                                const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
    int modes[4] = {interleave, swizzle, promotion, fill};
    return hooks.encode(map, type, rank, start, dims, strides, box, steps, modes, NULL, NULL);
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *start,
                                 const cuuint64_t *dims, const cuuint64_t *strides, const int *lower,
                                 const int *upper, cuuint32_t channels, cuuint32_t pixels,
                                 const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill) {
    int modes[4] = {interleave, swizzle, promotion, fill};
    cuuint32_t box[2] = {channels, pixels};
    return hooks.encode(map, type, rank, start, dims, strides, box, steps, modes, lower, upper);
}

/* --- queries --------------------------------------------------------------------------------------- */

enum { SHARED_PER_BLOCK = 232448, SHARED_PER_MULTIPROCESSOR = 233472 };

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "simulator");
    properties->major = hooks.major;
    properties->minor = hooks.minor;
    properties->multiProcessorCount = hooks.multiprocessors;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->sharedMemPerBlock = 49152;
    properties->sharedMemPerBlockOptin = SHARED_PER_BLOCK;
    properties->sharedMemPerMultiprocessor = SHARED_PER_MULTIPROCESSOR;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->l2CacheSize = 50 << 20;
    properties->totalGlobalMem = (size_t)64 << 30;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = hooks.multiprocessors; break;
    case cudaDevAttrComputeCapabilityMajor: *value = hooks.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = hooks.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = SHARED_PER_BLOCK; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = SHARED_PER_MULTIPROCESSOR; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    default: return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDA_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }
cudaError_t cudaFuncSetAttribute(const void *stub, enum cudaFuncAttribute attribute, int value) {
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *stub) {
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *stub, int block,
                                                          size_t smem) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *stub, int block,
                                                                   size_t smem, unsigned flags) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *stub, const cudaLaunchConfig_t *config) {
    unsigned ctas = 1;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
            ctas = config->attrs[i].val.clusterDim.x * config->attrs[i].val.clusterDim.y *
                   config->attrs[i].val.clusterDim.z;
    *count = hooks.multiprocessors / ctas;
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
    *function = dlsym(RTLD_DEFAULT, name);
    if (status)
        *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return *function ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
    return cudaGetDriverEntryPoint(name, function, flags, status);
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t error) { return error ? "refused by the simulator" : "no error"; }
const char *cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = cudaGetErrorString(error);
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char **text) { return cuGetErrorString(error, text); }

/* --- streams and events: all work is done already -------------------------------------------------- */

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    *stream = NULL;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = NULL;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    *milliseconds = 1;
    return cudaSuccess;
}
