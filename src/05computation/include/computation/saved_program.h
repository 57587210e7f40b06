#pragma once
#include "computation/compile.h"
#include "computation/graph_archive.h"

namespace refactor::computation {

/// Writes the graph that a Program was made of, as the passes left it, and the weights that its kernels have packed.
void write_program(GraphWriter&, kernel::Program const&);

struct LoadOptions {
    int threads = 0;  ///< 0: `default_thread_count()`
    size_t max_tensor_bytes = 0;
};
/// The same Program, without a pass and without packing what was packed. Throws `InvalidModel` for what
/// `write_program` cannot have written, `Unsupported` if this processor lacks the instructions that its kernels and
/// layouts were chosen for, and as `compile` does.
std::shared_ptr<kernel::Program> read_program(GraphReader&, LoadOptions const&);

}  // namespace refactor::computation
