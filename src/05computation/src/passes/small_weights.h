#pragma once
#include "common/data_type.h"
#include "common/result.h"
#include "made_constants.h"

#include <string>

namespace refactor::computation {

/// Adding it rounds to an integer, to nearest even, that is in the low bits; for magnitudes below 2^22.
constexpr float kRounder = 0x1.8p23f;

/// Elements of the smallest matrix that is worth storing small: fewer fit L1, where reading costs nothing whatever the
/// type.
constexpr int64_t kWorthStoringSmall = 1 << 14;

/// A matrix in a type of fewer bits.
struct SmallWeights {
    SharedBlob data;    ///< made when it is read; takes no memory before
    SharedBlob scales;  ///< f32, one for each channel, of types of 8 bits
    double error = 0;   ///< Euclidean norm of what rounding changed over that of the matrix
};

/// What scales of types of 8 bits belong to: a column of the matrix, a row, or all of it, which has the same number for
/// each column.
enum class Channels { Columns, Rows, One };

/// An f32 matrix of `rows` × `columns` as F16 or BF16, each element rounded to nearest, or as I8, symmetric, F8E4M3FN
/// or F8E5M2 with scales that take the largest magnitudes to that of the type. Or why not: elements that the type does
/// not hold.
///
/// One scale for each output channel costs nothing while multiplying, and weights of one channel are alike: with
/// normally distributed ones the error is about 1 %. Source: Jacob et al., arXiv 1712.05877, section 3.
Result<SmallWeights, std::string> make_small_weights(SharedBlob const& matrix, DataType type, int64_t rows,
                                                     int64_t columns, Channels channels);

/// The same elements transposed, made when they are read; a byte each.
SharedBlob transposed_bytes(SharedBlob matrix, int64_t rows, int64_t columns);
/// A matrix of F16 or BF16 as f32, made when it is read.
SharedBlob widened(SharedBlob matrix, DataType type);

}  // namespace refactor::computation
