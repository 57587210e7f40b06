#pragma once
#include <stddef.h>
#include <stdint.h>

/// The extension of a device plugin (see mem_manager/device_plugin.h) for kernels: compiling and launching generated
/// code, and matrix products by the vendor's library. The core decides what is computed and writes the code; the plugin
/// knows nothing of operators.
///
/// Functions that can fail return 0 or a code of the device and write the reason to `text`. `device` is the handle that
/// `open` gave, `stream` one of RefactorDeviceStreams. Thread-safe.
#define RG_KERNELS_EXTENSION "refactor_kernels_v2"

#ifdef __cplusplus
extern "C" {
#endif

/// `Y = activation(alpha * op(A) · op(B) + residual + bias)` for `batches` row-major matrices: op(A) [m, k],
/// op(B) [k, n], Y and residual [m, n], bias [n].
typedef struct RefactorMatMul {
    int32_t dtype;  ///< of all operands, number of `refactor::DataType`: f32, f16, bf16 or f64
    /// A and B are f8e4m3fn, each times a number in the device's memory; `dtype`, f16 or bf16, is that of all others.
    /// For cards of capability 89 and more, a single matrix, B transposed and A not, n and k multiples of 16.
    int32_t f8;
    int32_t trans_a, trans_b;  ///< A is stored [k, m], B is stored [n, k]
    int32_t bias, residual;
    int32_t activation;  ///< 0 none, 1 relu, 2 gelu (tanh)
    int32_t tf32;        ///< f32 products may round their operands to TF32
    int32_t alignment;   ///< bytes that all addresses are a multiple of
    int32_t rank;        ///< of the algorithm, by the library's own judgement: 0 the best
    int64_t m, n, k, batches;
    int64_t stride_a, stride_b;  ///< elements between matrices of a batch; 0: one for all. Y and residual are dense
    double alpha;
} RefactorMatMul;

typedef struct RefactorMatMulOperands {
    void const *a, *b;
    float const *scale_a, *scale_b;  ///< in the device's memory; null unless `f8`
    void const *bias, *residual;     ///< null where the product has none; `residual` may be `y`
    void *y, *workspace;
} RefactorMatMulOperands;

typedef struct RefactorDeviceKernels {
    uint32_t bytes;  ///< `sizeof(RefactorDeviceKernels)` of the plugin

    /// Compiles CUDA C++ for an architecture ("sm_90a") without needing a device. `code` is freed by `release`; `text`
    /// gets the compiler's messages.
    int32_t (*compile)(char const* source, char const* architecture, void** code, size_t* code_bytes, char* text,
                       size_t text_bytes);
    void (*release)(void* code);
    /// The function `name` of `source`, compiled for the device or taken from the caches in memory and on disk; valid
    /// until the process ends.
    int32_t (*load)(void* device, char const* source, char const* name, void** function, char* text, size_t text_bytes);
    /// Starts a function whose one parameter is a struct, copied from `argument`.
    int32_t (*launch)(void* device, void* stream, void* function, uint32_t blocks, uint32_t threads,
                      void const* argument, char* text, size_t text_bytes);

    /// Chooses an algorithm. `plan` is freed by `matmul_destroy`; runs of it may overlap on different streams.
    int32_t (*matmul_create)(void* device, RefactorMatMul const* product, void** plan, size_t* workspace_bytes,
                             char* text, size_t text_bytes);
    void (*matmul_destroy)(void* plan);
    int32_t (*matmul_run)(void* plan, void* stream, RefactorMatMulOperands const* operands, char* text,
                          size_t text_bytes);
    /// The compute capability times ten: 80, 89, 90 …
    int32_t (*capability)(void* device);
} RefactorDeviceKernels;

#ifdef __cplusplus
}
#endif
