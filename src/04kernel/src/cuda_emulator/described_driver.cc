/// The functions of NVIDIA's driver that cuDNN calls while it plans for a device that is described: they succeed and do
/// nothing. For tests where no driver is installed; as `libcuda.so.1` it serves whoever asks for that name afterwards.
/// There is no device: `cuInit` says so.
#include <cstddef>

// NOLINTBEGIN(readability-identifier-naming): named as in the documentation of the driver API.
#pragma GCC visibility push(default)
extern "C" {

int cuInit(unsigned) { return 100; }
int cuGetErrorName(int, char const** name) {
    *name = "CUDA_ERROR_NO_DEVICE";
    return 0;
}
int cuGetErrorString(int, char const** text) {
    *text = "there is no device";
    return 0;
}
int cuDriverGetVersion(int* version) {
    *version = 13000;
    return 0;
}
int cuDeviceGetCount(int* count) {
    *count = 1;
    return 0;
}
int cuDeviceGet(int* device, int) {
    *device = 0;
    return 0;
}
int cuCtxGetLimit(size_t* value, int) {
    *value = 1024;
    return 0;
}
int cuKernelGetAttribute(int* value, int, void*, int) {
    *value = 0;
    return 0;
}
int cuOccupancyMaxPotentialClusterSize(int* size, void*, void const*) {
    *size = 8;
    return 0;
}

#define RG_GIVES_HANDLE(name)                     \
    int name(void** handle) {                     \
        *handle = reinterpret_cast<void*>(&name); \
        return 0;                                 \
    }
RG_GIVES_HANDLE(cuCtxGetCurrent)
RG_GIVES_HANDLE(cuCtxPopCurrent)
RG_GIVES_HANDLE(cuKernelGetFunction)
RG_GIVES_HANDLE(cuLibraryGetKernel)
RG_GIVES_HANDLE(cuLibraryLoadData)
RG_GIVES_HANDLE(cuLibraryLoadFromFile)
RG_GIVES_HANDLE(cuModuleGetFunction)
RG_GIVES_HANDLE(cuModuleLoadData)
#undef RG_GIVES_HANDLE

#define RG_SUCCEEDS(name) \
    int name() { return 0; }
RG_SUCCEEDS(cuCtxPushCurrent)
RG_SUCCEEDS(cuKernelSetAttribute)
RG_SUCCEEDS(cuLaunchCooperativeKernel)
RG_SUCCEEDS(cuLaunchKernel)
RG_SUCCEEDS(cuLaunchKernelEx)
RG_SUCCEEDS(cuLibraryUnload)
RG_SUCCEEDS(cuLinkAddData)
RG_SUCCEEDS(cuLinkComplete)
RG_SUCCEEDS(cuLinkCreate)
RG_SUCCEEDS(cuLinkDestroy)
RG_SUCCEEDS(cuModuleUnload)
RG_SUCCEEDS(cuStreamGetCtx)
RG_SUCCEEDS(cuTensorMapEncodeIm2col)
RG_SUCCEEDS(cuTensorMapEncodeTiled)
#undef RG_SUCCEEDS

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
