#include "attention/cached_attention.h"

#include "conv/geometry.h"
#include "cuda/kernels.h"

namespace refactor::kernel {

JoinedCaches::JoinedCaches(BindArgs const& args)
    : k_(*args.outputs[kPresentK]), v_(*args.outputs[kPresentV]), args_(args) {
    k_.dtype = v_.dtype = args.inputs[0]->dtype;
    for (auto const* input : {args.inputs[0], static_cast<TensorDesc const*>(&k_), static_cast<TensorDesc const*>(&v_)})
        inputs_.push_back(input);
    for (size_t i = kMask; i < args.inputs.size(); ++i) inputs_.push_back(args.inputs[i]);
}

std::string JoinedCaches::problem() const {
    for (auto [past, present] : {std::pair{kPastK, kPresentK}, std::pair{kPastV, kPresentV}}) {
        auto const &first = args_.inputs[past]->dims, &second = args_.inputs[past + 1]->dims;
        auto joined = first;
        if (first.size() == 4 && second.size() == 4) joined[2] += second[2];
        auto others = second;
        if (first.size() == 4 && second.size() == 4) others[2] = first[2];
        if (first.size() != 4 || others != first || args_.outputs[present]->dims != joined)
            return dims_text(first) + " and " + dims_text(second) + " do not make a cache of " +
                   dims_text(args_.outputs[present]->dims);
    }
    return {};
}

int64_t JoinedCaches::bytes() const {
    int64_t bits = 0;
    auto add = [&](TensorDesc const& desc) { bits += desc.count() * static_cast<int64_t>(bits_of(desc.dtype)); };
    for (size_t i = kPastK; i <= kNewV; ++i) add(*args_.inputs[i]);
    add(*args_.outputs[kPresentK]), add(*args_.outputs[kPresentV]);
    return bits / 8;
}

Candidates candidates(CachedAttentionInfo const& info, Request const& request) {
    Candidates result;
    if (request.device == "cpu") {
        result.rejections.push_back({"cached_attention:cpu: only a GPU joins caches on the way"});
        return result;
    }
    result.add("cached_attention:nvidia:one_launch", cuda::cached_attention_one_launch(info, request));
    result.add("cached_attention:nvidia:composed", cuda::cached_attention_composed(info, request));
    return result;
}

}  // namespace refactor::kernel
