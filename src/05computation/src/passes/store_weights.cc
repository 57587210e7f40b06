#include "passes/store_weights.h"

#include "computation/evaluate.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "passes/constants.h"
#include "passes/lower_precision.h"
#include "passes/small_weights.h"

#include <cstdio>
#include <map>
#include <set>

namespace refactor::computation {

namespace {

/// A constant matrix as a product reads it.
struct Weights {
    Constant constant;
    bool transposed = false;
    EdgePtr scales = nullptr;
};

/// `halves`: also weights of f16 and bf16, which multiply their own type.
std::optional<Weights> weights_of(NodePtr node, kernel::MatMulInfo const& info, bool halves) {
    auto const *a = node->input(0), *b = node->input(1);
    if (!a || !b || !b->value.constant || a->value.dtype != b->value.dtype) return std::nullopt;
    auto type = b->value.dtype;
    bool half = type == DataType::F16 || type == DataType::BF16;
    if (type != DataType::F32 && !(half && halves)) return std::nullopt;
    Weights weights{{type, {}, b->value.constant}, info.trans_b};
    for (auto const& size : b->value.shape) weights.constant.dims.push_back(size.constant().value_or(-1));
    return weights;
}

bool is_one_matrix(Dims const& dims) { return element_count(dims) == dims[dims.size() - 2] * dims[dims.size() - 1]; }

bool is_swap(kernel::TransposeInfo const& info) { return info.perm.size() == 2 && info.perm[0] == 1; }

/// Whether reading the matrix is no cost beside multiplying, so that widening it anew would be one: a core that reads
/// 20 GB/s and multiplies at 120 GFLOP/s does both in the same time at 12 rows.
bool is_bound_by_arithmetic(NodePtr node, kernel::MatMulInfo const& info) {
    constexpr int64_t kRows = 64;
    auto const& shape = node->input(0)->value.shape;
    if (shape.size() < 2) return false;
    DimExpr rows(1);
    for (size_t i = 0; i + 2 < shape.size(); ++i) rows = rows * shape[i];
    rows = rows * shape[shape.size() - (info.trans_a ? 1 : 2)];
    return rows.constant().value_or(0) >= kRows;
}

/// Takes what a derived constant was made of instead, as far as products can read it; of another type if `retype`.
void unwrap(Weights& weights, DataType wanted, bool retype) {
    while (true) {
        auto const* source = derivation_of(weights.constant.blob);
        if (!source || source->to().dims != weights.constant.dims) return;
        auto const* transpose = info_of<kernel::TransposeInfo>(source->op());
        if (transpose && !is_swap(*transpose)) return;
        auto type = source->from().dtype;
        bool allowed =
            retype && is_one_matrix(weights.constant.dims) && (wanted == DataType::Undefined || wanted == type);
        if (!transpose && !allowed) return;
        weights.constant = source->from();
        if (transpose) weights.transposed = !weights.transposed;
    }
}

class Storing {
    Model& model_;
    PassContext const& context_;
    DataType wanted_;
    bool f8_products_;
    std::set<NodePtr> kept_{};  ///< that are to stay f32
    struct Stored {
        EdgePtr data = nullptr, scales = nullptr;
        bool transposed = false;
        std::string refusal;
    };
    std::map<std::pair<mem_manager::Blob const*, bool>, Stored> stored_;
    size_t before_ = 0, after_ = 0, matrices_ = 0;
    double error_ = 0;
    std::string worst_;

    EdgePtr add_source(std::string name, Constant const& constant) {
        Shape shape(constant.dims.begin(), constant.dims.end());
        return add_constant(model_.graph, std::move(name), constant.dtype, std::move(shape), constant.blob);
    }
    void leave(NodePtr node, std::string const& why) {
        if (wanted_ != DataType::Undefined && wanted_ != DataType::F32)
            context_.note("\"" + node->value.name + "\" keeps weights of " +
                          std::string(name_of(node->input(1)->value.dtype)) + ": " + why);
    }
    /// One for each output channel: of a matrix with one scale it has as many as columns.
    static std::shared_ptr<mem_manager::Blob const> scales_of(SmallWeights const& small, int64_t outputs) {
        auto bytes = static_cast<size_t>(outputs) * sizeof(float);
        if (small.scales->bytes() == bytes) return small.scales;
        std::vector<float> scales(static_cast<size_t>(outputs), *static_cast<float const*>(small.scales->data()));
        return mem_manager::Blob::copy_of(scales.data(), bytes);
    }
    /// Makes `weights` small, once for all products that read them the same way.
    Stored const& store(Weights const& weights, std::string const& name) {
        auto [it, fresh] = stored_.try_emplace({weights.constant.blob.get(), weights.transposed});
        auto& stored = it->second;
        if (!fresh) return stored;
        auto const& from = weights.constant;
        auto rows = from.dims[from.dims.size() - 2], columns = from.dims.back();
        auto channels = f8_products_ ? Channels::One : weights.transposed ? Channels::Rows : Channels::Columns;
        auto matrix = from.dtype == DataType::F32 ? from.blob : widened(from.blob, from.dtype);
        auto small = make_small_weights(matrix, wanted_, rows, columns, channels);
        if (!small) return stored.refusal = small.error(), stored;
        auto dims = from.dims;
        bool turn = f8_products_ && !weights.transposed;
        if (turn) {
            small->data = transposed_bytes(small->data, rows, columns);
            std::swap(dims[dims.size() - 2], dims.back());
        }
        stored.transposed = weights.transposed || turn;
        stored.data = add_source(name, {wanted_, dims, small->data});
        if (small->scales) {
            auto outputs = stored.transposed ? dims[dims.size() - 2] : dims.back();
            stored.scales = add_source(name + "/scales", {DataType::F32, {outputs}, scales_of(*small, outputs)});
        }
        before_ += from.blob->bytes(), after_ += small->data->bytes(), ++matrices_;
        if (worst_.empty() || small->error > error_) error_ = small->error, worst_ = name;
        return stored;
    }
    void replace(NodePtr node, kernel::MatMulInfo info, EdgePtr b, bool transposed, EdgePtr scales) {
        info.trans_b = transposed, info.scaled = scales != nullptr;
        std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
        inputs[1] = b;
        if (scales) inputs.insert(inputs.begin() + 2, scales);
        auto* made = model_.graph.insert({node->value.name, make_operator(info)}, inputs);
        made->output()->value = node->output()->value;
        model_.graph.replace_all_uses(node->output(), made->output());
        model_.graph.erase(node);
    }

public:
    Storing(Model& model, PassContext const& context)
        : model_(model),
          context_(context),
          wanted_(context.options.weights),
          f8_products_(context.options.precision == kernel::Precision::F8) {
        if (wanted_ == DataType::I4) wanted_ = DataType::Undefined;  // `round_products` has packed those
        if (wanted_ == DataType::Undefined && context.options.compute != DataType::Undefined) wanted_ = DataType::F32;
        if (f8_products_) kept_ = nodes_kept_in_f32(model, context);
    }

    bool store(NodePtr node, kernel::MatMulInfo const& info) {
        bool halves = context_.options.device != "cpu" && bits_of(wanted_) == 8;
        auto found = weights_of(node, info, halves);
        if (!found || kept_.contains(node)) return false;
        auto weights = *found;
        auto name = node->input(1)->value.name;
        unwrap(weights, wanted_, wanted_ != DataType::Undefined || !is_bound_by_arithmetic(node, info));
        auto count = element_count(weights.constant.dims);
        bool moved = weights.constant.blob != found->constant.blob;
        bool narrows = wanted_ != DataType::Undefined && wanted_ != weights.constant.dtype;
        EdgePtr b = nullptr;
        if (narrows && count < kWorthStoringSmall) {
            leave(node, std::to_string(count) + " elements are too few to matter");
        } else if (narrows && !is_one_matrix(weights.constant.dims)) {
            leave(node, "they are more than one matrix");
        } else if (narrows) {
            auto const& stored = store(weights, name);
            if (!stored.data) leave(node, stored.refusal);
            if (stored.data) b = stored.data, weights.scales = stored.scales, weights.transposed = stored.transposed;
        }
        if (!b && !moved) return false;
        if (!b) b = add_source(name, weights.constant);
        replace(node, info, b, weights.transposed, weights.scales);
        return true;
    }
    void report() const {
        if (!matrices_) return;
        char text[256];
        std::snprintf(text, sizeof text, "%zu matrices stored as %s: %.1f MiB instead of %.1f; largest error %.2g of",
                      matrices_, std::string(name_of(wanted_)).c_str(), static_cast<double>(after_) / 0x1p20,
                      static_cast<double>(before_) / 0x1p20, error_);
        context_.note(std::string(text) + " the norm, in \"" + worst_ + "\"");
    }
};

}  // namespace

int store_weights(Model& model, PassContext const& context) {
    auto wanted = context.options.weights;
    bool narrows = wanted != DataType::Undefined && wanted != DataType::F32 && wanted != DataType::I4;
    // Of a device, products of many rows are a library's, which takes operands of one type.
    if (context.options.device != "cpu" && !narrows) return 0;
    Storing storing(model, context);
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (auto const* info = info_of<kernel::MatMulInfo>(*node->value.op))
            changes += storing.store(node, kernel::MatMulInfo(*info));
    storing.report();
    return changes;
}

}  // namespace refactor::computation
