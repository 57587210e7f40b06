#pragma once
#include "common/data_type.h"
#include "common/result.h"
#include "mem_manager/blob.h"

#include <memory>
#include <string>

namespace refactor::computation {

/// A matrix in a type of fewer bits.
struct SmallWeights {
    std::shared_ptr<mem_manager::Blob const> data;    ///< made when it is read; takes no memory before
    std::shared_ptr<mem_manager::Blob const> scales;  ///< f32, one for each channel, of types of 8 bits
    double error = 0;  ///< Euclidean norm of what rounding changed over that of the matrix
};

/// An f32 matrix of `rows` × `columns` as F16 or BF16, each element rounded to nearest, or as I8, symmetric, F8E4M3FN
/// or F8E5M2 with a scale for each column (each row if `channels_are_rows`) that takes the largest magnitude to that of
/// the type. Or why not: elements that the type does not hold.
///
/// One scale for each output channel costs nothing while multiplying, and weights of one channel are alike: with
/// normally distributed ones the error is about 1 %. Source: Jacob et al., arXiv 1712.05877, section 3.
Result<SmallWeights, std::string> make_small_weights(std::shared_ptr<mem_manager::Blob const> const& matrix,
                                                     DataType type, int64_t rows, int64_t columns,
                                                     bool channels_are_rows);

}  // namespace refactor::computation
