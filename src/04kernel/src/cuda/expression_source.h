#pragma once
#include "cuda/source_text.h"
#include "kernel/ops/elementwise.h"

#include <optional>

namespace refactor::kernel::cuda {

/// How one input of a generated kernel runs along the output.
enum class Walk : uint8_t {
    Unused,
    Uniform,  ///< one element for all
    Linear,   ///< element i of the input for element i of the output
    Strided,  ///< a step for each axis
};

/// Sizes of an elementwise operation after merging axes, and what of them the code depends on: `key()` tells apart the
/// sources of one program, everything else is an argument of the kernel.
struct ExpressionLoops {
    Dims sizes;               ///< outermost first, at least one
    std::vector<Walk> walks;  ///< by input
    std::vector<Dims> steps;  ///< by input, in elements, along `sizes`
    bool wide = false;        ///< indices need 64 bits
    int vector = 1;           ///< consecutive elements that one thread takes
    int64_t count = 1;

    /// `used[i]`: the program reads input i; `widest`: bytes of the widest element among operands.
    static Result<ExpressionLoops, Rejection> make(BindArgs const& args, std::vector<bool> const& used, int64_t widest);
    std::string key() const;
};

/// Why no source can be written for the program, or nothing.
std::optional<Rejection> why_no_source(ElementwiseInfo const& info, Request const& request);

/// Whether the program can meet data that makes no sense: it divides integers.
bool can_fault(ElementwiseInfo const& info);

/// CUDA C++ of a kernel `name` over one struct of 64-bit words: addresses of all inputs, of all outputs, of the word
/// for faults (`runtime::RunContext::fault`) if there can be any, the number of elements, `sizes`, and the steps of
/// each strided input. Needs no headers.
std::string expression_source(ElementwiseInfo const& info, ExpressionLoops const& loops,
                              std::vector<DataType> const& inputs, std::string const& name);

/// The words of an argument, addresses left out.
std::vector<uint64_t> expression_words(ExpressionLoops const& loops);

/// Threads of a block of generated kernels.
inline constexpr int kBlockThreads = 256;

}  // namespace refactor::kernel::cuda
