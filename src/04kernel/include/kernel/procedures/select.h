#pragma once
#include "runtime/procedure.h"

#include <optional>

/// Procedures whose results have as many elements as the data says. They run on `place`, if it is not null and has code
/// for these types (`x` is that of the first operand), else on the host.
namespace refactor::kernel {

using ProcedurePtr = std::shared_ptr<runtime::Procedure const>;

/// x of any numeric type or bool: indices of the elements that are not zero, i64[rank, n], row-major order. Source:
/// ONNX NonZero-13.
ProcedurePtr make_nonzero(DataType x, mem_manager::Device* place);

/// x, condition (bool of one axis): the slices of x along `axis` whose condition holds, of all elements in order if
/// there is no axis; a short condition stands for false behind its end, a long one has to be false there. Source: ONNX
/// Compress-11.
ProcedurePtr make_compress(DataType x, std::optional<int64_t> axis, mem_manager::Device* place);

/// x of any type: its distinct elements (slices along `axis`), in ascending order or that of the first occurrences;
/// the index of each one's first occurrence, the number in the first output for each element of x, how often each
/// occurs: i64. NaN is equal to NaN, and last. Source: ONNX Unique-11.
ProcedurePtr make_unique(DataType x, std::optional<int64_t> axis, bool sorted, mem_manager::Device* place);

/// boxes f32[batches, n, 4], scores f32[batches, classes, n], most boxes a class i64 (none if omitted), overlap f32
/// (0 if omitted), least score f32 (any if omitted): i64[m, 3] of batch, class, box, in the order of batches and
/// classes, best first. `center`: boxes are x and y of the middle, width, height; else two opposite corners y, x.
/// Source: ONNX NonMaxSuppression-11.
ProcedurePtr make_non_max_suppression(bool center, mem_manager::Device* place);

/// start, limit, delta (scalars of one type): start, start + delta … before limit. Source: ONNX Range-11.
ProcedurePtr make_range(DataType x, mem_manager::Device* place);

/// x of any type, starts, ends, axes (all in order if omitted), steps (1 if omitted), i32 or i64: bounds as numpy
/// clamps them. Source: ONNX Slice-13.
ProcedurePtr make_slice(DataType x, size_t rank, mem_manager::Device* place);

/// Integers of any shape: a tensor without elements, whose sizes are 0 and these integers, for programs that have them
/// as sizes. A negative one is refused; `name` is that of the operand.
ProcedurePtr make_content_sizes(std::string name);

}  // namespace refactor::kernel
