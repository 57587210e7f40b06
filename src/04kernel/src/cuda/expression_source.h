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
    Joined,   ///< like Linear, but rows of several tensors beside each other; input 0 only
};

/// Sizes of an elementwise operation after merging axes, and what of them the code depends on: `key()` tells apart the
/// sources of one program, everything else is an argument of the kernel.
struct ExpressionLoops {
    Dims sizes;               ///< outermost first, at least one
    std::vector<Walk> walks;  ///< by input
    std::vector<Dims> steps;  ///< by input, in elements, along `sizes`
    Dims begins;              ///< of the pieces in a row of what is joined, in elements; one more than there are pieces
    bool wide = false;        ///< indices need 64 bits
    int vector = 1;           ///< consecutive elements that one thread takes
    int64_t count = 1;

    /// `used[i]`: the program reads input i; `widest`: bytes of the widest element among operands; `begins`: of the
    /// pieces of input 0, which then has the shape of the output.
    static Result<ExpressionLoops, Rejection> make(BindArgs const& args, std::vector<bool> used, int64_t widest,
                                                   Dims begins = {});
    std::string key() const;
    /// Addresses that the code has of input 0: 1, or that of each piece, the last one repeated up to a power of two.
    size_t pieces() const;
};

/// Why no source can be written for the program, or nothing.
std::optional<Rejection> why_no_source(ElementwiseInfo const& info, Request const& request);

/// Whether the program can meet data that makes no sense: it divides integers.
bool can_fault(ElementwiseInfo const& info);

/// CUDA C++ of a kernel `name` over one struct of 64-bit words: addresses of all inputs (`pieces()` of input 0), of all
/// outputs, of the word for faults (`runtime::RunContext::fault`) if there can be any, the number of elements, `sizes`,
/// the steps of each strided input, and `begins`, as many as `pieces()` and the end of the row. Needs no headers.
std::string expression_source(ElementwiseInfo const& info, ExpressionLoops const& loops,
                              std::vector<DataType> const& inputs, std::string const& name);

/// The words of an argument, addresses left out.
std::vector<uint64_t> expression_words(ExpressionLoops const& loops);

/// Threads of a block of generated kernels.
inline constexpr int kBlockThreads = 256;

}  // namespace refactor::kernel::cuda
