#pragma once
#include <stddef.h>
#include <stdint.h>

/// The extension of a device plugin (see mem_manager/device_plugin.h) for convolutions and attention by the vendor's
/// library (cuDNN). The library is loaded when it is first asked for; without it every function says what is missing.
///
/// Functions that can fail return 0 or a code and write the reason to `text`. `device` is the handle that `open` gave,
/// `stream` one of RefactorDeviceStreams. Data types are numbers of `refactor::DataType`. Thread-safe.
#define RG_DNN_EXTENSION "refactor_dnn_v3"

#ifdef __cplusplus
extern "C" {
#endif

/// `Y = activation(conv(X, W) + bias + residual)`, the residual after the activation if `residual_last`. X
/// [batch, in_channels, in…], W [out_channels, in_channels / groups, kernel…], or if `transposed` [in_channels,
/// out_channels / groups, kernel…], bias [out_channels]; row-major, of one type; three axes, the first of which may be
/// of size 1 throughout. With `channels_last`, X, W, Y and residual have their second axis behind all others.
typedef struct RefactorConvolution {
    int32_t dtype;  ///< f32, f64, f16 or bf16; sums are f32, of f64 f64
    int32_t transposed, channels_last;
    int32_t bias, residual, residual_last;
    int32_t activation;  ///< 0 none, 1 relu, 2 clip to [alpha, beta], 3 leaky relu (alpha), 4 sigmoid, 5 silu, 6 gelu
                         ///< (erf), 7 gelu (tanh), 8 tanh
    int32_t tf32;        ///< f32 operands may be rounded to TF32
    int32_t exact;       ///< no algorithm that changes the error bound (Winograd, FFT)
    int64_t batch, groups, in_channels, out_channels;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
    double alpha, beta;
} RefactorConvolution;

/// Elements from a batch, a head and a row to the next; rows are contiguous and begin at multiples of 16 bytes.
typedef struct RefactorSteps {
    int64_t batch, head, row;
} RefactorSteps;

/// `Y = softmax(scale * Q · Kᵀ + bias) · V`: Q [batch, heads, queries, depth], K [batch, kv_heads, keys, depth], V
/// [batch, kv_heads, keys, value_depth], Y [batch, heads, queries, value_depth].
typedef struct RefactorAttention {
    int32_t dtype;   ///< f16 or bf16, of all operands
    int32_t causal;  ///< query s sees keys up to keys - queries + s, of which there is one at least
    int64_t batch, heads, kv_heads, queries, keys, depth, value_depth;
    int64_t bias[4];  ///< sizes of the bias, each 1 or that of [batch, heads, queries, keys]; all 0: there is none
    RefactorSteps q, k, v, y;
    double scale;
} RefactorAttention;

typedef struct RefactorDeviceDnn {
    uint32_t bytes;  ///< `sizeof(RefactorDeviceDnn)` of the plugin

    /// The library's version for people; fails where it is missing.
    int32_t (*version)(char* text, size_t text_bytes);
    /// Plans, the `rank`-th best by the library's own judgement. `plan` is freed by `destroy`; runs of it may overlap
    /// on different streams. No such plan: a reason.
    int32_t (*convolution_create)(void* device, RefactorConvolution const* convolution, int32_t rank, void** plan,
                                  size_t* workspace_bytes, char* text, size_t text_bytes);
    int32_t (*attention_create)(void* device, RefactorAttention const* attention, int32_t rank, void** plan,
                                size_t* workspace_bytes, char* text, size_t text_bytes);
    void (*destroy)(void* plan);
    /// `operands`: X, W, bias, residual, or Q, K, V, bias; null where there is none.
    int32_t (*run)(void* plan, void* stream, void const* const* operands, void* y, void* workspace, char* text,
                   size_t text_bytes);
    /// Plans for a device that is described (cuDNN's JSON of device properties) instead of present, for tests.
    int32_t (*convolution_check)(char const* properties, RefactorConvolution const* convolution, char* text,
                                 size_t text_bytes);
    int32_t (*attention_check)(char const* properties, RefactorAttention const* attention, char* text,
                               size_t text_bytes);
} RefactorDeviceDnn;

#ifdef __cplusplus
}
#endif
