#pragma once
#include "computation/compile.h"
#include "frontend/graph.h"
#include "runtime/session.h"

namespace refactor::frontend {

class Model;

struct Compiled {
    std::shared_ptr<runtime::Executable const> executable;
    std::vector<std::shared_ptr<kernel::Program>> programs;  ///< of the executable, in order
    std::vector<computation::PassReport> passes;             ///< over all programs
};

/// From a model to something that runs: cuts it into programs and procedures, lowers and compiles. Throws as
/// `computation::compile` does, `InvalidInput` if the model has no node of a name in `keep_f32`, and `Unsupported`
/// naming the nodes that run on the CPU only if another device is asked for.
///
/// Cutting: a procedure's results are known after it only, so what depends on them goes into a later program. What has
/// no types before some content is known (`Inference::deferred`) is the last call: it compiles itself when it runs.
Compiled compile(Model const& model, computation::CompileOptions const& options);
/// The same for a graph of another one, such as the body of a loop.
Compiled compile(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                 computation::CompileOptions const& options);

/// A type as users see it.
runtime::PortInfo port_of(Tensor const& tensor, SymbolTable const& symbols);

/// The computation graph of a model that is one program, before any pass. Throws `Unsupported` for other models.
computation::Model lower(Model const& model);

}  // namespace refactor::frontend
