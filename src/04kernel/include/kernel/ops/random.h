#pragma once
#include "kernel/kernel.h"

/// Random numbers by Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a function
/// of a key and a counter, so that the numbers depend neither on threads nor on the instruction set. The key is `seed`,
/// the counter the position in the output and the number of runs that this kernel has begun (over all clones and plans
/// of one compiled model): a model compiled anew repeats its sequence, two nodes of one seed draw the same numbers.
namespace refactor::kernel {

enum class Distribution : uint8_t { Uniform, Normal };

/// No input; fills an output of any float type. Uniform: [a, b). Normal: mean a, standard deviation b. Each number has
/// 53 random bits before it is rounded to the output's type.
struct RandomInfo {
    static constexpr char const* kType = "Random";
    static constexpr bool kRandom = true;  ///< never folded
    Distribution distribution = Distribution::Uniform;
    double a = 0, b = 1;
    uint64_t seed = 0;
    std::string attributes() const;
};
Candidates candidates(RandomInfo const&, Request const&);

/// Draws classes: input [B, C] of any float type holds unnormalised log-probabilities, the output [B, samples] of i32
/// or i64 independent draws. Rows without a finite maximum throw InvalidInput. Source: ONNX Multinomial-22.
struct MultinomialInfo {
    static constexpr char const* kType = "Multinomial";
    static constexpr bool kRandom = true;
    uint64_t seed = 0;
    std::string attributes() const;
};
Candidates candidates(MultinomialInfo const&, Request const&);

}  // namespace refactor::kernel
