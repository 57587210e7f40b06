#include "passes/channels_last_convolutions.h"

#include "kernel/device_dnn.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/reduce.h"
#include "mem_manager/device.h"
#include "passes/channels_last_region.h"

namespace refactor::computation {

namespace {

bool has_cudnn(mem_manager::Device const& device) {
    auto const* table = static_cast<RefactorDeviceDnn const*>(device.extension(RG_DNN_EXTENSION));
    char text[512] = "";
    return table && table->bytes >= sizeof(RefactorDeviceDnn) && table->version(text, sizeof text) == 0;
}

class Region : ChannelsLastRegion {
    bool tf32_;

    bool is_wanted(DataType type) const {
        return type == DataType::F16 || type == DataType::BF16 || (tf32_ && type == DataType::F32);
    }

    /// Whether the sizes of input and output are those of a convolution from the output to the input, which is what
    /// cuDNN computes the gradient of.
    static bool has_even_pads(NodePtr node, kernel::ConvTransposeInfo const& info) {
        auto const &x = node->input(0)->value.shape, &w = node->input(1)->value.shape, &y = node->output()->value.shape;
        for (size_t i = 0; i < info.window.strides.size(); ++i) {
            auto reach = DimExpr(info.window.dilations[i]) * (w[i + 2] - 1) + 1;
            auto rest = y[i + 2] + 2 * info.window.pads_begin[i] - reach - (x[i + 2] - 1) * info.window.strides[i];
            auto known = rest.constant();
            if (!known || *known < 0 || *known >= info.window.strides[i]) return false;
        }
        return true;
    }
    static bool fits(NodePtr, kernel::ConvInfo const&) { return true; }
    static bool fits(NodePtr node, kernel::ConvTransposeInfo const& info) {
        return node->value.op->params().empty() && has_even_pads(node, info);
    }

    template <class Info>
    bool convert_conv(NodePtr node) {
        auto const* conv = info_of<Info>(*node->value.op);
        if (!conv || conv->channels_last) return false;
        auto* y = node->output();
        if (!is_image(y) || !is_wanted(y->value.dtype) || !fits(node, *conv)) return false;
        auto info = *conv;
        info.channels_last = true;
        std::vector<bool> follows(node->inputs().size());
        follows[0] = follows[1] = true;
        if (info.epilogue.residual) follows.back() = true;
        auto params = node->value.op->params();
        convert(node, make_operator(std::move(info), {params.begin(), params.end()}), follows);
        return true;
    }

    /// Windows of one element along the channels, which become the last spatial axis: [N, 1, spatial…, C].
    bool convert_pool(NodePtr node) {
        auto const* pool = info_of<kernel::PoolInfo>(*node->value.op);
        auto *x = node->input(0), *y = node->output();
        // Pads that are unknown come in the order of the axes.
        if (!pool || node->outputs().size() != 1 || !last_.contains(x) || !node->value.op->params().empty() ||
            x->value.shape.size() > 4)
            return false;
        auto info = *pool;
        auto add = [](Dims& sizes, int64_t value) {
            if (!sizes.empty()) sizes.push_back(value);
        };
        add(info.kernel, 1), add(info.window.strides, 1), add(info.window.dilations, 1);
        add(info.window.pads_begin, 0), add(info.window.pads_end, 0);
        auto with_planes = [](Shape const& shape) {
            auto last = channels_last(shape);
            last.insert(last.begin() + 1, DimExpr(1));
            return last;
        };
        auto* planes = reshape(with_channels_last(x), "/planes", with_planes(x->value.shape));
        auto* made = graph_.insert({node->value.name, make_operator(info)}, {planes});
        made->output()->value = {
            y->value.name + "/planes", y->value.dtype, with_planes(y->value.shape), {}, nullptr, false};
        auto* back = graph_.insert({node->value.name + "/reshape", std::make_shared<Reshape>()}, {made->output()});
        produce(back->output(), y);
        graph_.erase(node);
        return true;
    }

public:
    Region(Graph& graph, bool tf32) : ChannelsLastRegion(graph), tf32_(tf32) {}
    bool take(NodePtr node) {
        return convert_conv<kernel::ConvInfo>(node) || convert_conv<kernel::ConvTransposeInfo>(node) ||
               convert_pool(node) || convert_reduction(node) || convert_concat(node) || convert_split(node) ||
               convert_resize(node) || follow(node, false);
    }
};

}  // namespace

int channels_last_convolutions(Model& model, PassContext const& context) {
    auto const& options = context.options;
    if (options.device == "cpu" || !has_cudnn(mem_manager::find_device(options.device, 0))) return 0;
    int changes = 0;
    Region region(model.graph, options.precision == kernel::Precision::Tf32);
    for (auto* node : model.graph.topological()) changes += region.take(node);
    return changes;
}

}  // namespace refactor::computation
