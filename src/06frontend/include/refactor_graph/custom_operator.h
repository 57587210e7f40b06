/// Operators of your own in a shared library: the interface between the library and RefactorGraph.
///
/// A library exports one function, `refactor_custom_operators`, that describes its operators. It is loaded by
/// `refactor_graph.register_library(path)`, needs this header only, links nothing, and keeps working with later
/// versions of the package: structs grow at their ends only, and every one that may grow begins with its size. C99 and
/// C++.
///
/// For each node `infer` announces the types of its outputs, once or more while the model is compiled; a kernel then
/// computes them. Both get a `RefactorHost`, the functions that they may call, and a context that is valid during the
/// call. Both return 0, or what `fail` returned. Both may be called by several threads at the same time, for different
/// contexts. No exception may leave them. docs/custom_operators.md walks through an example.
#pragma once
#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN(readability-identifier-naming): names of a C interface carry their prefix.
#define REFACTOR_CUSTOM_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

/// Element types, by the numbers of ONNX's `TensorProto.DataType`. Types of less than a byte are packed, the first
/// element in the low bits.
enum {
    REFACTOR_F32 = 1,
    REFACTOR_U8 = 2,
    REFACTOR_I8 = 3,
    REFACTOR_U16 = 4,
    REFACTOR_I16 = 5,
    REFACTOR_I32 = 6,
    REFACTOR_I64 = 7,
    REFACTOR_TEXT = 8,
    REFACTOR_BOOL = 9,
    REFACTOR_F16 = 10,
    REFACTOR_F64 = 11,
    REFACTOR_U32 = 12,
    REFACTOR_U64 = 13,
    REFACTOR_BF16 = 16
};

/// UTF-8, not terminated.
typedef struct RefactorText {
    char const* data;
    size_t size;
} RefactorText;

/// A dense row-major tensor. `data` of an input is not to be written; that of text is an array of `RefactorText`. An
/// omitted optional input has the type 0 and no data.
typedef struct RefactorTensor {
    int32_t type;
    int32_t rank;
    int64_t const* dims;
    void* data;
} RefactorTensor;

typedef struct RefactorContext RefactorContext;

/// What the host offers. Functions that look something up return 1, or 0 if it is not there or of another kind;
/// pointers that they give stay valid during the call of `infer` or of the kernel.
typedef struct RefactorHost {
    uint32_t bytes;  ///< `sizeof(RefactorHost)` of the host

    /// Reports an error; returns the code that `infer` or the kernel then returns.
    int32_t (*fail)(RefactorContext*, char const* message);

    int32_t (*attribute_int)(RefactorContext*, char const* name, int64_t* value);
    int32_t (*attribute_float)(RefactorContext*, char const* name, float* value);
    int32_t (*attribute_text)(RefactorContext*, char const* name, RefactorText* value);
    int32_t (*attribute_ints)(RefactorContext*, char const* name, int64_t const** values, size_t* count);
    int32_t (*attribute_floats)(RefactorContext*, char const* name, float const** values, size_t* count);

    uint32_t (*input_count)(RefactorContext*);
    uint32_t (*output_count)(RefactorContext*);

    // For `infer`.
    /// The element type; 0 if the input is omitted.
    int32_t (*input_type)(RefactorContext*, uint32_t input);
    int32_t (*input_rank)(RefactorContext*, uint32_t input);
    /// A size as text: "3", a symbol such as "N", or an expression such as "N + 1".
    char const* (*input_size)(RefactorContext*, uint32_t input, uint32_t axis);
    /// The content of an input that is constant.
    int32_t (*input_value)(RefactorContext*, uint32_t input, RefactorTensor* value);
    /// Announces an output. Sizes are numbers, symbols of the inputs, expressions of them with + - * // % brackets and
    /// floor_div, ceil_div, mod, min, max (a, b), or null where only the kernel knows. Returns 0, or a code to return.
    int32_t (*set_output)(RefactorContext*, uint32_t output, int32_t type, uint32_t rank, char const* const* sizes);

    // For kernels.
    /// Memory for an output whose size was not announced (its `data` is null), and its sizes; null after an error,
    /// which has been reported. Memory of text is reached by `set_text` only; then the result is no pointer to use.
    void* (*allocate)(RefactorContext*, uint32_t output, uint32_t rank, int64_t const* dims);
    /// Sets one element of an output of text; it is copied.
    int32_t (*set_text)(RefactorContext*, uint32_t output, int64_t element, char const* data, size_t size);
    /// Calls `body(user, begin, end)` for parts of 0 … count - 1 on the threads of the executor, parts of at least
    /// `grain`; returns when all are done. The body must call no function of the host but `set_text`.
    void (*parallel_for)(RefactorContext*, int64_t count, int64_t grain,
                         void (*body)(void* user, int64_t begin, int64_t end), void* user);
} RefactorHost;

/// Computes an operator on a device. `outputs` have type, and sizes and memory where `infer` announced sizes that
/// follow from those of the inputs; else `data` is null, and the kernel calls `allocate`.
typedef struct RefactorKernel {
    char const* device;  ///< "cpu"
    int32_t (*run)(RefactorHost const*, RefactorContext*, RefactorTensor const* inputs, RefactorTensor const* outputs);
} RefactorKernel;

typedef struct RefactorOperator {
    uint32_t bytes;  ///< `sizeof(RefactorOperator)` of the library
    char const* domain;
    char const* name;
    int64_t first, last;  ///< versions of the domain; `last` 0: every later one
    uint32_t least_inputs, most_inputs, least_outputs, most_outputs;
    int32_t (*infer)(RefactorHost const*, RefactorContext*);
    RefactorKernel const* kernels;
    uint32_t kernel_count;
} RefactorOperator;

typedef struct RefactorLibrary {
    uint32_t abi;  ///< `REFACTOR_CUSTOM_ABI`
    uint32_t count;
    RefactorOperator const* const* operators;
} RefactorLibrary;

/// What the library exports; the result stays valid while the library is loaded, which is until the process ends.
RefactorLibrary const* refactor_custom_operators(void);

#ifdef __cplusplus
}
#endif
// NOLINTEND(readability-identifier-naming)
