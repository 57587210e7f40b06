#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel::cuda {

/// Sizes of the operands of a convolution as if the channels were in front: what has as many axes as X is turned if
/// they are last, the bias is not. Outlived by what it was made of.
class ChannelsFirst {
    std::vector<TensorDesc> turned_;
    SmallVector<TensorDesc const*, 5> operands_;
    BindArgs const& args_;

public:
    ChannelsFirst(BindArgs const& args, bool channels_last) : args_(args) {
        for (auto const* list : {&args.inputs, &args.outputs})
            for (auto const* desc : *list) turned_.push_back(desc ? *desc : TensorDesc{});
        auto rank = turned_[0].dims.size();
        for (auto& desc : turned_)
            if (auto& dims = desc.dims; channels_last && dims.size() == rank) {
                auto channels = dims.back();
                for (size_t i = rank - 1; i > 1; --i) dims[i] = dims[i - 1];
                dims[1] = channels;
            }
        for (auto const& desc : turned_) operands_.push_back(&desc);
    }
    ChannelsFirst(ChannelsFirst const&) = delete;
    ChannelsFirst& operator=(ChannelsFirst const&) = delete;

    BindArgs args() const {
        std::span<TensorDesc const* const> all(operands_);
        auto inputs = args_.inputs.size();
        return {all.first(inputs), all.subspan(inputs), args_.params, args_.packs, args_.threads};
    }
};

}  // namespace refactor::kernel::cuda
