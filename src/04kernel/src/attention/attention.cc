#include "attention/attention.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string AttentionShape::init(AttentionInfo const& info, BindArgs const& args) {
    auto const &q = args.inputs[0]->dims, &k = args.inputs[1]->dims, &v = args.inputs[2]->dims;
    if (q.size() != 4 || k.size() != 4 || v.size() != 4) return "Q, K and V must have rank 4";
    batch = q[0], heads = q[1], queries = q[2], depth = q[3];
    kv_heads = k[1], keys = k[info.k_transposed ? 3 : 2], value_depth = v[3];
    auto k_depth = k[info.k_transposed ? 2 : 3];
    if (k_depth != depth)
        return "K has depth " + std::to_string(k_depth) + ", expected that of Q, " + std::to_string(depth);
    if (v[2] != keys)
        return "V has " + std::to_string(v[2]) + " positions, expected those of K, " + std::to_string(keys);
    if (v[1] != kv_heads || k[0] != batch || v[0] != batch) return "batches or heads of Q, K and V differ";
    if (kv_heads == 0 || heads % kv_heads)
        return std::to_string(heads) + " heads are not a multiple of " + std::to_string(kv_heads);
    if (info.has_sinks)
        if (auto const& sinks = args.inputs[3 + info.has_mask]->dims; sinks != Dims{heads})
            return "the sinks have " + std::to_string(sinks.size()) + " axes, expected one of " + std::to_string(heads);
    if (!info.has_mask) return {};
    auto const& mask = *args.inputs[3];
    bool_mask = mask.dtype == DataType::Bool;
    int64_t const full[4]{batch, heads, queries, keys};
    if (mask.dims.size() > 4) return "the mask has rank " + std::to_string(mask.dims.size()) + ", expected at most 4";
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

std::string AttentionInfo::attributes() const {
    return "scale=" + exact_text(scale) + (causal ? ",causal" : "") + (has_mask ? ",mask" : "") +
           (has_sinks ? ",sinks" : "") + (k_transposed ? ",k_transposed" : "") + (nan_to_zero ? ",nan_to_zero" : "");
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
