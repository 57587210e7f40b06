#pragma once
#include "runtime/procedure.h"

#include <optional>
#include <vector>

/// Procedures on sequences, optionals, and tensors that only get another shape. Elements are shared, never copied,
/// wherever they are. The two that make new ones (of type `x`) do it on `place`, if it is not null and has code for
/// that, else on the host. A position counts from the end if it is negative; one outside of the sequence is
/// `InvalidInput`.
namespace refactor::kernel {

using ProcedurePtr = std::shared_ptr<runtime::Procedure const>;

/// Hands its input on as it is; with no input, gives nothing.
ProcedurePtr make_identity();
/// tensor: the same elements without `axes`, which must have the size 1 (else `InvalidInput`); null: without all axes
/// of that size.
ProcedurePtr make_squeeze(std::optional<std::vector<size_t>> axes);
/// No inputs: the empty sequence.
ProcedurePtr make_sequence_empty();
/// Any number of values: the sequence of them.
ProcedurePtr make_sequence_construct();
/// sequence, value, position (i32 or i64, the end if omitted): the sequence with the value inserted before position.
ProcedurePtr make_sequence_insert();
/// sequence, position (the last if omitted): the sequence without that element.
ProcedurePtr make_sequence_erase();
/// sequence, position: the element.
ProcedurePtr make_sequence_at();
/// sequence: number of its elements, i64[].
ProcedurePtr make_sequence_length();
/// optional: whether it holds something, bool[].
ProcedurePtr make_optional_has_element();
/// optional: what it holds; `InvalidInput` if that is nothing.
ProcedurePtr make_optional_get_element();

/// tensor, split (i32 or i64, a scalar or the sizes; all sizes 1 if omitted): the parts along `axis`, which is dropped
/// from each if `split` is omitted and not `keep_axis`.
ProcedurePtr make_split_to_sequence(DataType x, int64_t axis, bool keep_axis, mem_manager::Device* place);
/// sequence of tensors: their concatenation along `axis`, or along a new axis there.
ProcedurePtr make_concat_from_sequence(DataType x, int64_t axis, bool new_axis, mem_manager::Device* place);

}  // namespace refactor::kernel
