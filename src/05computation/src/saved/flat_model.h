#pragma once
#include "computation/graph.h"
#include "computation/graph_archive.h"

namespace refactor::computation {

/// A `Model` with numbers instead of pointers, in the order in which its nodes run: as it is written.
struct FlatModel {
    struct FlatEdge {
        std::string name;
        DataType dtype{};
        kernel::Layout layout{};
        Shape shape;
        std::shared_ptr<mem_manager::Blob const> constant;
    };
    struct FlatNode {
        std::string name;
        std::shared_ptr<Operator const> op;
        std::vector<uint32_t> inputs, outputs;  ///< edges; `kernel::kNoEdge` where an optional input is absent
    };
    std::vector<FlatEdge> edges;
    std::vector<FlatNode> nodes;
    std::vector<uint32_t> inputs, outputs;  ///< edges
    std::vector<std::string> output_names;
    std::vector<std::string> symbols;  ///< by number
    std::vector<kernel::SizeCondition> conditions;
};

FlatModel flatten(Model const&);
FlatModel flatten(kernel::ProgramParts const&);

/// Writes the model and the operators of its nodes. Throws `Unsupported` naming each node that cannot be written.
void write(GraphWriter&, FlatModel const&);

struct ReadModel {
    Model model;
    std::vector<EdgePtr> edges;  ///< by the numbers that they had
};
/// The model, sound by `verify`, or throws `InvalidModel`.
ReadModel read_model(GraphReader&);

}  // namespace refactor::computation
