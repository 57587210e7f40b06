#pragma once
#include "operator_def.h"

#include <cmath>

/// What the nodes MoE and QMoE of com.microsoft say. Source: onnxruntime, docs/ContribOperators.md.
namespace refactor::onnx {

/// Which inputs a layer of the experts takes.
struct LayerInputs {
    std::string_view name;
    size_t weights, scales, bias, zeros;
    std::string_view bits;  ///< the attribute that overrides `expert_weight_bits`
};
/// No input.
inline constexpr size_t kNone = 63;

/// One layer of all experts: [experts, n, k].
struct Layer {
    LayerInputs inputs;
    int64_t n = 0, k = 0;
    int32_t bits = 0;  ///< 0: floats
    int64_t block = 0;
    bool by_columns = false;  ///< one scale for a column
};

enum class Gate : uint8_t { None, Interleaved, Halves, Third };

struct Experts {
    bool packed = false;
    int64_t count = 0, chosen = 1;
    bool normalized = false, sparse_mixer = false, may_round = false;
    std::string_view activation;
    Gate gate = Gate::None;
    float alpha = 1, beta = 0, limit = INFINITY;
    Layer up, down, third;  ///< `third` is used by Gate::Third
};

/// The input of QMoE that replaces the router's scores as weights.
inline constexpr size_t kRouterWeights = 14;

Inferred<Experts> experts_of(InferContext const&, NodeView const&);

}  // namespace refactor::onnx
