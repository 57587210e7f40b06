#pragma once
#include "frontend/custom_operator.h"
#include "refactor_graph/custom_operator.h"
#include "runtime/procedure.h"

#include <deque>

/// What a library sees as a context: one call of `infer` or of a kernel.
struct RefactorContext {
    refactor::frontend::Attributes const* attributes;
    size_t inputs, outputs;
    std::optional<std::string> error = std::nullopt;

    // During `infer`.
    refactor::frontend::InferContext* infer = nullptr;
    std::vector<refactor::frontend::AnnouncedType> announced = {};
    std::deque<std::string> sizes = {};    ///< handed out
    std::deque<refactor::Dims> dims = {};  ///< of constants that were handed out
    std::deque<std::vector<RefactorText>> texts = {};

    // During a kernel.
    refactor::runtime::CallContext const* call = nullptr;
    std::span<refactor::runtime::Value> results = {};
    refactor::frontend::ResultCheck const* check = nullptr;
    std::vector<std::vector<std::string>> strings = {};  ///< by output

    /// The tensor as the library sees it.
    RefactorTensor view(refactor::runtime::Value const& value);
};

namespace refactor::frontend {

RefactorHost const& library_host();

}  // namespace refactor::frontend
