#pragma once
#include "computation/graph.h"
#include "kernel/program.h"

namespace refactor::computation {

struct CompileOptions {
    std::string device = "cpu";
    /// Nodes that no kernel of `device` computes run on the host; else they are refused.
    bool host_too = false;
    /// Names as in `pipeline()`: empty is the default pipeline, "-name" removes one, "-all" starts from none, "name"
    /// adds one.
    std::vector<std::string> passes;
    int threads = 0;  ///< 0: `default_thread_count()`
    /// F8 goes with `weights` F8E4M3FN and `compute` BF16 or F16, on a GPU that multiplies such numbers.
    kernel::Precision precision = kernel::Precision::Default;
    /// What constant right-hand sides of products are stored as: F32, F16, BF16, or I8 (on a GPU also F8E4M3FN and
    /// F8E5M2) with a scale for each column; they are widened to f32 while they are read. Undefined: as the model
    /// stores them, on a GPU F32.
    DataType weights = DataType::Undefined;
    /// F16 or BF16: type that tensors of f32 are computed in (sums stay f32); inputs and outputs of the model keep
    /// theirs. A CPU rounds no more than operands (`round_operands`). Undefined: as the model says.
    DataType compute = DataType::Undefined;
    /// Products by constant weights round both operands to 8 bits (`round_products`), on a CPU.
    bool round_products = false;
    /// Nodes, by name, that `compute` and `round_products` leave in f32; what a name stands for is checked by
    /// `frontend::compile`, since a model is more than one program.
    std::vector<std::string> keep_f32;
    /// Intermediate tensors that every pass must leave in place under their names.
    std::vector<std::string> keep;
    size_t max_tensor_bytes =
        0;  ///< larger computed tensors are refused when their size is known; 0: a quarter of the host's memory
    std::shared_ptr<kernel::TuningTable> tuning;  ///< kernels that were fastest when measured; null: estimates decide
    bool measure = false;                         ///< where sizes are fixed, measure what `tuning` does not know
    bool verify = false;  ///< run the graph verifier after every pass (always on in Debug builds)
};

/// What a pass did: for logs, `dbg` and the search for a guilty pass.
struct PassReport {
    std::string name;
    int changes = 0;
    double microseconds = 0;
    std::vector<std::string> notes;  ///< what the pass left as it was, and why
    std::string graph;               ///< the graph after the pass, if it changed anything and debug logging is on
};

/// One of the programs that a graph was cut into. Values have numbers: first the inputs of the graph, then its outputs,
/// then what crosses from one program to another.
struct CompiledPart {
    std::shared_ptr<kernel::Program> program;
    std::vector<uint32_t> inputs, outputs;
};

struct Compiled {
    std::shared_ptr<kernel::Program> program;  ///< null if there are parts
    std::vector<PassReport> passes;
    std::vector<CompiledPart> parts;  ///< in running order, if some nodes were placed on the host (`host_too`)
    uint32_t values = 0;              ///< that `parts` number
};

/// Runs the passes and asks for kernels. Throws `InvalidInput` for an unknown pass or kept tensor, `Unsupported` naming
/// every node that no kernel accepts, with all reasons.
Compiled compile(Model model, CompileOptions const& options);

/// Names of all passes in the order of the default pipeline.
std::vector<std::string> pass_names();

}  // namespace refactor::computation
