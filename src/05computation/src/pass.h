#pragma once
#include "computation/compile.h"

namespace refactor::computation {

/// For nodes that a user names: tensors that they and the nodes behind them make, nearest first, before any pass.
using TensorsBehind = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// What passes may ask about the compilation they are part of.
struct PassContext {
    CompileOptions const& options;
    Isa isa;
    int threads;
    TensorsBehind const* keep_f32 = nullptr;    ///< of `CompileOptions::keep_f32`
    std::vector<std::string>* notes = nullptr;  ///< of the report, for people; null: nobody asks

    void note(std::string text) const {
        if (notes) notes->push_back(std::move(text));
    }
};

/// Rewrites the graph in place and returns how many changes it made. A pass keeps names and dtypes of global inputs and
/// outputs and never removes an edge with `keep`.
using PassFunction = int (*)(Model&, PassContext const&);

struct Pass {
    char const* name;
    PassFunction run;
};

/// All passes in the order in which they run; one that cleans up after others occurs more than once.
std::span<Pass const> pipeline();
/// The passes that `selection` leaves; throws `InvalidInput` for an unknown name, listing the known ones.
std::vector<Pass> select_passes(std::span<std::string const> selection);

/// Everything that is wrong with the graph: broken links, edges without type, operands that contradict the operator.
/// Empty: sound.
std::vector<std::string> verify(Model&);

}  // namespace refactor::computation
