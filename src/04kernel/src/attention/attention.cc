#include "attention/attention.h"

#include "cuda/kernels.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// [batch, heads, rows, row].
AttentionPlace whole(int64_t heads, int64_t rows, int64_t row) { return {0, heads * rows * row, rows * row, row}; }

/// Why some element lies outside of `tensor`, or empty.
std::string outside(AttentionPlace const& p, int64_t batch, int64_t heads, int64_t rows, int64_t row,
                    TensorDesc const& tensor, char const* role) {
    if (batch == 0 || heads == 0 || rows == 0 || row == 0) return {};
    auto last = p.first + (batch - 1) * p.batch + (heads - 1) * p.head + (rows - 1) * p.row + row - 1;
    if (std::min({p.first, p.batch, p.head, p.row}) >= 0 && last < tensor.count()) return {};
    return std::string(role) + " ends at element " + std::to_string(last) + " of a tensor of " +
           std::to_string(tensor.count());
}

}  // namespace

std::string AttentionShape::init_tensors(AttentionInfo const& info, BindArgs const& args) {
    auto const &q_dims = args.inputs[0]->dims, &k_dims = args.inputs[1]->dims, &v_dims = args.inputs[2]->dims;
    if (q_dims.size() != 4 || k_dims.size() != 4 || v_dims.size() != 4) return "Q, K and V must have rank 4";
    batch = q_dims[0], heads = q_dims[1], queries = q_dims[2], depth = q_dims[3];
    kv_heads = k_dims[1], keys = k_dims[info.k_transposed ? 3 : 2], value_depth = v_dims[3];
    auto k_depth = k_dims[info.k_transposed ? 2 : 3];
    if (k_depth != depth)
        return "K has depth " + std::to_string(k_depth) + ", expected that of Q, " + std::to_string(depth);
    if (v_dims[2] != keys)
        return "V has " + std::to_string(v_dims[2]) + " positions, expected those of K, " + std::to_string(keys);
    if (v_dims[1] != kv_heads || k_dims[0] != batch || v_dims[0] != batch)
        return "batches or heads of Q, K and V differ";
    q = whole(heads, queries, depth), k = whole(kv_heads, k_dims[2], k_dims[3]);
    v = whole(kv_heads, keys, value_depth), y = whole(heads, queries, value_depth);
    return {};
}

std::string AttentionShape::init_views(AttentionInfo const& info, BindArgs const& args) {
    auto const& params = args.params;
    if (params.size() != kAttentionViewParams)
        return "has " + std::to_string(params.size()) + " params, expected " + std::to_string(kAttentionViewParams);
    batch = params[0], heads = params[1], kv_heads = params[2], queries = params[3], keys = params[4];
    depth = params[5], value_depth = params[6];
    auto place = [&](size_t i) {
        return AttentionPlace{params[7 + 4 * i], params[8 + 4 * i], params[9 + 4 * i], params[10 + 4 * i]};
    };
    q = place(0), k = place(1), v = place(2), y = place(3);
    auto k_rows = info.k_transposed ? depth : keys, k_row = info.k_transposed ? keys : depth;
    for (auto why : {outside(q, batch, heads, queries, depth, *args.inputs[0], "Q"),
                     outside(k, batch, kv_heads, k_rows, k_row, *args.inputs[1], "K"),
                     outside(v, batch, kv_heads, keys, value_depth, *args.inputs[2], "V"),
                     outside(y, batch, heads, queries, value_depth, *args.outputs[0], "Y")})
        if (!why.empty()) return why;
    return {};
}

std::string AttentionShape::init_mask(TensorDesc const& mask, bool repeats) {
    bool_mask = mask.dtype == DataType::Bool;
    if (mask.dims.size() > 4) return "the mask has rank " + std::to_string(mask.dims.size()) + ", expected at most 4";
    mask_batches = std::max<int64_t>(batch, 1);
    if (repeats && mask.dims.size() == 4) {
        mask_batches = mask.dims[0];
        if (mask_batches == 0 || batch % mask_batches)
            return std::to_string(batch) + " batches are not a multiple of " + std::to_string(mask_batches) +
                   ", those of the mask";
    }
    int64_t const full[4]{mask_batches, heads, queries, keys};
    int64_t step = 1;
    for (size_t i = 1; i <= mask.dims.size(); ++i) {
        auto size = mask.dims[mask.dims.size() - i];
        if (size != 1 && size != full[4 - i])
            return "axis " + std::to_string(4 - i) + " of the mask is " + std::to_string(size) + ", expected 1 or " +
                   std::to_string(full[4 - i]);
        mask_step[4 - i] = size == 1 ? 0 : step;
        step *= size;
    }
    return {};
}

std::string AttentionShape::init(AttentionInfo const& info, BindArgs const& args) {
    if (auto why = info.views ? init_views(info, args) : init_tensors(info, args); !why.empty()) return why;
    if (kv_heads == 0 || heads % kv_heads)
        return std::to_string(heads) + " heads are not a multiple of " + std::to_string(kv_heads);
    if (info.has_sinks)
        if (auto const& sinks = args.inputs[3 + info.has_mask]->dims; sinks != Dims{heads})
            return "the sinks have " + std::to_string(sinks.size()) + " axes, expected one of " + std::to_string(heads);
    return info.has_mask ? init_mask(*args.inputs[3], info.mask_repeats) : std::string();
}

std::string AttentionInfo::attributes() const {
    return "scale=" + exact_text(scale) + (softcap > 0 ? ",softcap=" + exact_text(softcap) : std::string()) +
           (causal ? ",causal" : "") + (has_mask ? ",mask" : "") + (mask_repeats ? ",mask_repeats" : "") +
           (has_sinks ? ",sinks" : "") + (k_transposed ? ",k_transposed" : "") +
           (unseen_to_zero ? ",unseen_to_zero" : "") + (nan_to_zero ? ",nan_to_zero" : "") +
           (hidden == HiddenKeys::Replaced ? ",replaced" : "") + (hidden == HiddenKeys::Absent ? ",absent" : "") +
           (views ? ",views" : "") + (may_round ? ",bf16" : "");
}

Candidates candidates(AttentionInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("attention:nvidia:cudnn", cuda::attention_cudnn(info, request));
        answer.add("attention:nvidia:tiled", cuda::attention_tiled(info, request));
        answer.add("attention:nvidia:split_keys", cuda::attention_split_keys(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "attention/attention_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
