// The functions of the CUDA runtime that host code compiled by CuTe DSL calls, by the names that it uses.
// Each hands its arguments to a function of runtime.py. Memory of the device is memory of the host.

#include <stdint.h>
#include <string.h>

struct handlers {
    int (*load)(void **library, const void *image);
    int (*kernel)(void **kernel, void *library, const char *name);
    int (*launch)(const void *config, const void *kernel, void **arguments);
    int (*encode)(void *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill);
    int (*attribute)(int *value, int attribute);
};

static struct handlers to;

void set_handlers(const struct handlers *given) { to = *given; }

int _cudaGetDevice(int *device) { *device = 0; return 0; }
int _cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int _cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int _cudaSetDevice(int device) { return device; }
int _cudaDeviceGetAttribute(int *value, int attribute, int device) { return to.attribute(value, attribute); }
int _cudaDeviceSynchronize(void) { return 0; }
int _cudaStreamSynchronize(void *stream) { return 0; }

int _cudaLibraryLoadData(void **library, const void *image, void *a, void *b, unsigned c, void *d, void *e, unsigned f) {
    return to.load(library, image);
}
int _cudaLibraryGetKernel(void **kernel, void *library, const char *name) { return to.kernel(kernel, library, name); }
int _cudaLibraryUnload(void *library) { return 0; }
int _cudaKernelSetAttributeForDevice(const void *kernel, int attribute, int value, int device) { return 0; }
int _cudaFuncSetAttribute(const void *kernel, int attribute, int value) { return 0; }
int _cuKernelGetAttribute(int *value, int attribute, const void *kernel, int device) { *value = 0; return 0; }
int _cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared) {
    *blocks = 1;
    return 0;
}

int _cudaLaunchKernelEx(const void *config, const void *kernel, void **arguments) {
    return to.launch(config, kernel, arguments);
}

int _cudaMemcpy(void *to_, const void *from, size_t bytes, int kind) { memcpy(to_, from, bytes); return 0; }
int _cudaMemcpyAsync(void *to_, const void *from, size_t bytes, int kind, void *stream) {
    memcpy(to_, from, bytes);
    return 0;
}
int _cudaMemset(void *at, int value, size_t bytes) { memset(at, value, bytes); return 0; }
int _cudaMemsetAsync(void *at, int value, size_t bytes, void *stream) { memset(at, value, bytes); return 0; }

int _cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                            const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                            int swizzle, int l2, int fill) {
    return to.encode(map, type, rank, address, dims, strides, box, steps, interleave, swizzle, l2, fill);
}

int cuda_dialect_init_library_once(void **library, int (*load)(void **), int (*to_device)(void **, int),
                                   void (*set_error)(const char *, const char *)) {
    if (*library)
        return 0;
    void *loaded = 0;
    int status = load(&loaded);
    if (!status && to_device)
        status = to_device(&loaded, 0);
    if (status)
        set_error("RuntimeError", "the module could not be loaded");
    else
        *library = loaded;
    return status ? -1 : 0;
}
void cuda_dialect_unload_library_once(void **library) { *library = 0; }

// Errors reach Python by another way: runtime.py keeps the exceptions of its functions.
void CuteDSLRT_TVMFFISetRaisedCudaError(void) {}
void CuteDSLRT_TVMFFISetRaisedCudaLaunchError(void) {}
void cuda_dialect_assert_success(int status) {}
void cuda_dialect_print_on_error(int status) {}
