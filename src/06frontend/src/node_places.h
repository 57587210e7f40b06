#pragma once
#include "partition.h"

namespace refactor::frontend {

/// How a node is computed.
enum class Place : uint8_t {
    Nowhere,    ///< nothing needs it, or its results are known
    Program,    ///< in a program of kernels
    Procedure,  ///< by a procedure of its own
    Deferred,   ///< once the content of what it reads is known, which decides about its sizes
};

struct NodePlaces {
    std::vector<Place> places;             ///< by node
    std::vector<ProcedurePtr> procedures;  ///< by node; null where it is in no `Place::Procedure`
    std::vector<bool> with_readers;        ///< by node: of constants, and part of every program that reads its results
    bool has_deferred = false;
};

/// Starts from the outputs of the graph. Reports procedures that are refused.
NodePlaces place_nodes(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                       computation::CompileOptions const& options, Problems& problems);

/// The symbols that stand for the elements of a tensor whose content is a size.
std::vector<SymbolId> content_symbols(Tensor const& tensor, SymbolTable const& symbols);

}  // namespace refactor::frontend
