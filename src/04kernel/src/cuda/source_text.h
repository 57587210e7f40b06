#pragma once
#include "kernel/epilogue.h"
#include "kernel/kernel.h"

#include <string>

namespace refactor::kernel::cuda {

/// Functions that all sources begin with.
extern char const* const kPrelude;
/// RG_ARGUMENT: a parameter that is indexed by what only the run knows, or whose address is taken, without a copy of it
/// for each thread. Behind `kPrelude`, any number of times.
extern char const* const kArgumentSource;
/// Elements as they lie in memory: `rg_f16`, `rg_bf16`, `rg_load` and `rg_store`, `rg_mad`.
extern char const* const kElementSource;
/// `rg_tile`: sums of products by 256 threads; needs `kElementSource`.
extern char const* const kTileSource;

/// Floats of 8 and 4 bits: `rg_decoded<F>(code)`, `rg_encoded<F>(value, saturate)`; behind `kPrelude`, any number of
/// times.
extern char const* const kMinifloatSource;
/// "rg_e4m3fn"; null for other types.
char const* minifloat_text(DataType type);

/// The type of an element in memory ("rg_f16"; null where no code is generated for it), and of sums of its products
/// ("float").
char const* element_text(DataType type);
char const* sum_text(DataType type);

/// `RG_FN Sum <name>(Sum x)`: an activation.
std::string activation_source(Activation const& activation, std::string const& name);

}  // namespace refactor::kernel::cuda
