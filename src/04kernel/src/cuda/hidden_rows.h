#pragma once
#include "attention/attention.h"
#include "cuda/function_cache.h"
#include "cuda/launch.h"

namespace refactor::kernel::cuda {

/// `rg_hidden_rows` for a bias of f16 or bf16.
std::string hidden_rows_source(DataType dtype, bool causal);

/// Writes zeros to the rows of an attention that see no key: those for which a bias of f16 or bf16 is -infinity at
/// every key that causality leaves. What the attention wrote there does not matter.
class HiddenRows {
    DataType dtype_;
    bool causal_;
    FunctionCache functions_;

public:
    HiddenRows(Library const& library, DataType dtype, bool causal)
        : dtype_(dtype), causal_(causal), functions_(library) {}
    /// Operands: the bias, Y. Rows of Y are whole words of 16 bytes.
    std::unique_ptr<runtime::Task> bind(AttentionShape const& shape) const;
};

}  // namespace refactor::kernel::cuda
