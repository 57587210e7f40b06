#pragma once
#include "cuda/generated.h"

#include <optional>

/// What movement that converts has in common: it reads f32, f16 or bf16, and writes one or two outputs of these types.
namespace refactor::kernel::cuda {

/// `Run` (`kRun` elements in f32), `rg_read(from, at, type)` and `rg_write<type>(to, at, run)`; `at` counts runs, types
/// are those of `converting_number`.
extern char const* const kConverting;

/// Elements of the widest run: 16 bytes of f32.
inline constexpr int64_t kWidestRun = 4;

/// 0 f32, 1 f16, 2 bf16.
std::optional<uint64_t> converting_number(DataType type);
/// Operands of other types or layouts, or more than two outputs.
std::optional<Rejection> refuse_converting(Request const& request);
/// `kWholes`, how many outputs there are, and their types `kFirst` and `kSecond`.
std::string outputs_kind(BindArgs const& args);

}  // namespace refactor::kernel::cuda
