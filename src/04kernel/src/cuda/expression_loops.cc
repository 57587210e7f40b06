#include "cuda/expression_source.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace refactor::kernel::cuda {

namespace {

/// Steps of an input along the output's axes, 0 where it is repeated; false if the shapes do not fit.
bool broadcast_steps(Dims const& x, Dims const& y, Dims& steps) {
    if (x.size() > y.size()) return false;
    steps.resize(y.size());
    int64_t step = 1;
    auto lead = y.size() - x.size();
    for (auto i = y.size(); i-- > 0;) {
        auto size = i < lead ? 1 : x[i - lead];
        if (size != 1 && size != y[i]) return false;
        steps[i] = size == 1 ? 0 : step;
        step *= size;
    }
    return true;
}

/// Merges neighbouring axes that every input walks through in one step, and drops those of size 1.
void merge_axes(Dims const& sizes, std::vector<Dims> const& steps, ExpressionLoops& loops) {
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
        if (sizes[axis] == 1) continue;
        bool merges = !loops.sizes.empty();
        for (size_t i = 0; merges && i < steps.size(); ++i)
            merges = steps[i].empty() || loops.steps[i].back() == steps[i][axis] * sizes[axis];
        if (merges)
            loops.sizes.back() *= sizes[axis];
        else
            loops.sizes.push_back(sizes[axis]);
        for (size_t i = 0; i < steps.size(); ++i) {
            if (steps[i].empty()) continue;
            if (merges) loops.steps[i].pop_back();
            loops.steps[i].push_back(steps[i][axis]);
        }
    }
    if (!loops.sizes.empty()) return;
    loops.sizes.push_back(1);
    for (size_t i = 0; i < steps.size(); ++i)
        if (!steps[i].empty()) loops.steps[i].push_back(0);
}

Walk walk_of(Dims const& steps, Dims const& sizes) {
    int64_t expected = 1;
    bool linear = true, uniform = true;
    for (auto i = sizes.size(); i-- > 0; expected *= sizes[i]) {
        linear &= steps[i] == expected;
        uniform &= steps[i] == 0;
    }
    return uniform ? Walk::Uniform : linear ? Walk::Linear : Walk::Strided;
}

/// 16 bytes are the widest access of a thread. Rows must consist of whole vectors, unless all is one row.
int vector_of(ExpressionLoops const& loops, int64_t widest) {
    auto vector = static_cast<int>(16 / widest);
    if (loops.sizes.size() == 1 && loops.begins.empty()) return vector;
    for (; vector > 1; vector /= 2) {
        bool fits = loops.sizes.back() % vector == 0;
        for (auto begin : loops.begins) fits &= begin % vector == 0;
        for (size_t i = 0; fits && i < loops.walks.size(); ++i) {
            if (loops.walks[i] != Walk::Strided) continue;
            auto const& steps = loops.steps[i];
            if (steps.back() == 0) continue;
            fits = steps.back() == 1;
            for (size_t axis = 0; axis + 1 < steps.size(); ++axis) fits &= steps[axis] % vector == 0;
        }
        if (fits) return vector;
    }
    return 1;
}

}  // namespace

Result<ExpressionLoops, Rejection> ExpressionLoops::make(BindArgs const& args, std::vector<bool> used, int64_t widest,
                                                         Dims begins) {
    ExpressionLoops loops;
    bool joined = !begins.empty();
    loops.begins = std::move(begins);
    if (joined) used[0] = false;  // where its elements lie does not follow from the axes
    auto const& y = args.outputs[0]->dims;
    auto inputs = args.inputs.size();
    std::vector<Dims> steps(inputs);
    loops.steps.resize(inputs), loops.walks.assign(inputs, Walk::Unused);
    for (size_t i = 0; i < inputs; ++i)
        if (used[i] && !broadcast_steps(args.inputs[i]->dims, y, steps[i]))
            return Err{Rejection{"the shape of input " + std::to_string(i) + " does not broadcast to the output's"}};
    for (size_t i = 0; i < inputs; ++i)
        if (used[i] && y.empty()) loops.steps[i].push_back(0);
    loops.count = element_count(y);
    if (y.empty())
        loops.sizes.push_back(1);
    else
        merge_axes(y, steps, loops);
    for (size_t i = 0; i < inputs; ++i)
        if (used[i]) loops.walks[i] = walk_of(loops.steps[i], loops.sizes);
    if (joined) loops.walks[0] = Walk::Joined;
    // A grid's stride of 2^28 elements must not overflow the index either.
    loops.wide = loops.count >= std::numeric_limits<int32_t>::max();
    loops.vector = vector_of(loops, widest);
    return loops;
}

size_t ExpressionLoops::pieces() const { return begins.empty() ? 1 : std::bit_ceil(begins.size() - 1); }

std::string ExpressionLoops::key() const {
    std::string key = std::to_string(sizes.size()) + (wide ? "w" : "n") + std::to_string(vector) + ':';
    if (!begins.empty()) key += "j" + std::to_string(pieces());
    for (size_t i = 0; i < walks.size(); ++i) {
        key += static_cast<char>('0' + static_cast<int>(walks[i]));
        if (walks[i] == Walk::Strided) key += steps[i].back() == 0 ? 'c' : steps[i].back() == 1 ? 'r' : 's';
    }
    return key;
}

std::vector<uint64_t> expression_words(ExpressionLoops const& loops) {
    std::vector<uint64_t> words{static_cast<uint64_t>(loops.count)};
    for (auto size : loops.sizes) words.push_back(static_cast<uint64_t>(size));
    for (size_t i = 0; i < loops.walks.size(); ++i)
        if (loops.walks[i] == Walk::Strided)
            for (auto step : loops.steps[i]) words.push_back(static_cast<uint64_t>(step));
    if (loops.begins.empty()) return words;
    for (size_t i = 0; i <= loops.pieces(); ++i)
        words.push_back(static_cast<uint64_t>(loops.begins[std::min(i, loops.begins.size() - 1)]));
    return words;
}

}  // namespace refactor::kernel::cuda
