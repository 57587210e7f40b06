#include "concat/concat.h"

#include <array>
#include <utility>
#include <vector>

namespace refactor::kernel {

using namespace movement;

namespace {

/// Channels that lie side by side in a block of an input and of the output.
struct LaneRun {
    size_t input;
    int64_t from_block, from_lane, to_lane, lanes;
};

/// Channels of blocks of which inputs do not fill whole ones: every block of the output takes lanes from one block of
/// an input or several.
struct LanePlan {
    int64_t images, positions, block;
    std::vector<int64_t> in_blocks;
    std::vector<std::vector<LaneRun>> runs;  ///< of every block of the output

    LanePlan(TensorDesc const& y, std::span<TensorDesc const* const> inputs)
        : images(y.dims[0]), positions(1), block(block_of(y.layout)) {
        for (size_t i = 2; i < y.dims.size(); ++i) positions *= y.dims[i];
        runs.resize(static_cast<size_t>((y.dims[1] + block - 1) / block));
        int64_t to = 0;
        for (size_t i = 0; i < inputs.size(); ++i) {
            auto channels = inputs[i]->dims[1];
            in_blocks.push_back((channels + block - 1) / block);
            for (int64_t from = 0; from < channels;) {
                auto lanes = std::min({channels - from, block - from % block, block - to % block});
                runs[static_cast<size_t>(to / block)].push_back({i, from / block, from % block, to % block, lanes});
                from += lanes, to += lanes;
            }
        }
    }

    int64_t out_blocks() const { return static_cast<int64_t>(runs.size()); }
    int64_t block_floats() const { return positions * block; }

    /// One block of the output, with zeros in the lanes behind the last channel.
    void copy_block(void* const* arguments, float* y, int64_t image, int64_t index) const;
};

template <int n>
void copy_lanes(float const* x, float* y, int64_t positions, int64_t step) {
    for (int64_t i = 0; i < positions; ++i) std::memcpy(y + i * step, x + i * step, n * sizeof(float));
}

template <int... n>
constexpr auto copies(std::integer_sequence<int, n...>) {
    return std::array{copy_lanes<n + 1>...};
}
constexpr auto kCopies = copies(std::make_integer_sequence<int, 16>());

void LanePlan::copy_block(void* const* arguments, float* y, int64_t image, int64_t index) const {
    int64_t filled = 0;
    for (auto const& run : runs[static_cast<size_t>(index)]) {
        auto* x = static_cast<float const*>(arguments[run.input]) +
                  (image * in_blocks[run.input] + run.from_block) * block_floats() + run.from_lane;
        filled += run.lanes;
        if (run.lanes == block)
            std::memcpy(y, x, static_cast<size_t>(block_floats()) * sizeof(float));
        else
            kCopies[static_cast<size_t>(run.lanes - 1)](x, y + run.to_lane, positions, block);
    }
    for (int64_t i = 0; filled < block && i < positions; ++i)
        std::fill(y + i * block + filled, y + (i + 1) * block, 0.f);
}

TaskResult bind_lanes(ConcatInfo const&, BindArgs const& args, Isa) {
    LanePlan plan(*args.outputs[0], args.inputs);
    return make_task(
        [plan = std::move(plan), output = args.inputs.size()](void* const* a, runtime::RunContext const& c) {
            auto* y = static_cast<float*>(a[output]);
            auto blocks = plan.images * plan.out_blocks(), floats = plan.block_floats();
            parallel_bytes(c.pool, blocks, blocks * floats * int64_t{sizeof(float)}, [&](int64_t begin, int64_t end) {
                for (auto i = begin; i < end; ++i)
                    plan.copy_block(a, y + i * floats, i / plan.out_blocks(), i % plan.out_blocks());
            });
        });
}

}  // namespace

KernelResult concat_lanes(ConcatInfo const& info, Request const& request) {
    if (auto no = refuse_concat(info, request)) return Err{*no};
    auto const& y = request.outputs[0];
    if (y.layout == Layout::Plain) return Err{Rejection{"expects a blocked layout"}};
    if (y.dtype != DataType::F32) return Err{Rejection{"expects f32, got " + std::string(name_of(y.dtype))}};
    return make_kernel(info, "concat", "lanes", request, bind_lanes);
}

}  // namespace refactor::kernel
