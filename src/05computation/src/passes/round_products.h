#pragma once
#include "pass.h"

namespace refactor::computation {

/// With `CompileOptions::round_products`: products of f32 by one constant matrix become `BlockMatMul`, which rounds
/// both operands to 8 bits with a scale for each block of up to 128 along K, in the columns of the matrix when it is
/// compiled and in the rows of the other when it runs. What the model itself stores in blocks may round its rows, too.
/// Sums are exact within a block and f32 beyond; nothing is calibrated. With `CompileOptions::weights` of I4 the matrix
/// is rounded to 4 bits in blocks of 32, and rows stay f32 unless both are asked for.
///
/// With normally distributed elements an operand's error is about 0.6 % of the norm, of 4 bits about 8 %. Left as they
/// are: matrices below 16 Ki elements, which are no cost, with fewer than 32 rows, or more than one; products of a
/// transposed A, nodes that `PassContext::keep_f32` names, and all of them where no kernel multiplies bytes faster than
/// floats. The notes tell which large ones and why. Before `fuse_epilogues`.
int round_products(Model&, PassContext const&);

}  // namespace refactor::computation
