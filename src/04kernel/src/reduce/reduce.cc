#include "reduce/reduce.h"

#include "cuda/kernels.h"

#include <algorithm>

namespace refactor::kernel {

ReduceShape::ReduceShape(std::span<int64_t const> dims, std::span<int64_t const> axes) {
    struct Axis {
        int64_t size, stride;
        bool reduced;
    };
    SmallVector<Axis, 8> runs;  // innermost first
    int64_t stride = 1;
    auto last = static_cast<int64_t>(axes.size()) - 1;
    for (auto i = static_cast<int64_t>(dims.size()) - 1; i >= 0; --i) {
        auto is_reduced = last >= 0 && axes[last] == i;
        if (is_reduced) --last;
        if (dims[i] != 1) {
            if (!runs.empty() && runs.back().reduced == is_reduced)
                runs.back().size *= dims[i];
            else
                runs.push_back({dims[i], stride, is_reduced});
        }
        stride *= dims[i];
    }
    reduces_last = runs.empty() || runs.front().reduced;
    for (size_t i = runs.size(); i-- > 0;) {
        auto const& run = runs[i];
        (run.reduced ? reduced : kept).push_back({run.size, run.stride});
        (run.reduced ? reduced_count : kept_count) *= run.size;
    }
}

SmallVector<ReducePass, 4> passes_of(ReduceShape const& shape) {
    SmallVector<ReducePass, 4> passes;
    auto runs = shape.reduced;
    auto count = shape.kept_count * shape.reduced_count;
    while (count > 0 && !runs.empty()) {
        auto longest = std::max_element(runs.begin(), runs.end(), [](auto& a, auto& b) { return a.size < b.size; });
        auto [size, inner] = *longest;
        passes.push_back({count / (size * inner), size, inner});
        count /= size;
        for (auto& run : runs)
            if (run.stride > inner) run.stride /= size;
        runs.erase(longest);
    }
    if (passes.empty()) passes.push_back({1, 1, shape.kept_count});
    return passes;
}

std::string_view name_of(ReduceKind kind) {
    constexpr std::string_view kNames[]{"Sum", "Mean", "Max",       "Min",    "Prod",
                                        "L1",  "L2",   "SumSquare", "LogSum", "LogSumExp"};
    return kNames[static_cast<int>(kind)];
}

std::string ReduceInfo::attributes() const {
    std::string text = "kind=" + std::string(name_of(kind)) + ",axes=";
    for (size_t i = 0; i < axes.size(); ++i) text += (i ? "x" : "") + std::to_string(axes[i]);
    return text;
}

Candidates candidates(ReduceInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("reduce:nvidia:nvrtc", cuda::reduce_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "reduce/reduce_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
