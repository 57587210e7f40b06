#pragma once

namespace refactor::cuda_emulator {

/// What a generated kernel is compiled with in place of nvcc's built-ins.
extern char const* const kBuiltins;

}  // namespace refactor::cuda_emulator
