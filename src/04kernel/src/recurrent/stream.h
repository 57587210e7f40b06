#pragma once
#include <cstdint>

// The boundary between the walk over one sequence (baseline code) and the loop over the weights of a step (one file for
// each instruction set).
//
// A step of one sequence multiplies a vector with all of R: a stream of weights that a core cannot read from L2 or L3
// as fast as it could multiply (one fused multiplication per vector read, where a core does two to four in that time).
// The products of the inputs of the steps to come with W are the opposite: they reuse every vector of W for several
// rows. Done beside each other, instruction by instruction, the second fills what the first leaves idle. (With AVX-512,
// whose loads are as wide as a line, one after the other is faster: an LSTM of 256 units takes a sixth less on Zen 5,
// one of 512 units as long.)

namespace refactor::kernel {

/// One step over some whole panels of R and of W, which have the same columns; steps in elements.
struct StreamBlock {
    int64_t panels;

    /// y = h · R, of `depth` rows.
    int64_t depth;
    float const *h, *r;
    float* y;

    /// gx = bias + x · W for `StreamFunctions::rows` rows, or, of that, what rows [from, to) of W add.
    bool beside;  ///< false: none of it
    int64_t x_row, x_depth, from, to;
    float const *x, *w, *bias;
    float* gx;
    int64_t gx_row;
};

struct StreamFunctions {
    int rows;  ///< of the input products
    void (*multiply)(StreamBlock const&);
};

StreamFunctions const& stream_functions_avx2();

}  // namespace refactor::kernel
