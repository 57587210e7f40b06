#pragma once
#include "mem_manager/memory_planner.h"

#include <random>
#include <string>
#include <vector>

namespace refactor::mem_manager::test {

/// Lifetimes as networks have them, one step an operator. `in_place`: elementwise steps may write over their input.
class Network {
    std::vector<Lifetime> lives_;
    uint32_t step_ = 0;

public:
    using Tensor = uint32_t;
    bool in_place = true;

    /// Runs one operator that reads `inputs` and writes `bytes`.
    Tensor run(std::vector<Tensor> const& inputs, size_t bytes, bool elementwise = false) {
        for (auto input : inputs) lives_[input].last_step = step_;
        auto reuse = elementwise && in_place && lives_[inputs[0]].bytes >= bytes ? inputs[0] : kNoReuse;
        lives_.push_back({bytes, step_, step_, reuse});
        ++step_;
        return static_cast<Tensor>(lives_.size() - 1);
    }
    std::vector<Lifetime> const& lifetimes() const { return lives_; }
};

inline std::vector<Lifetime> chain(uint32_t steps, std::mt19937& random) {
    Network net;
    auto x = net.run({}, 4096);
    for (uint32_t i = 1; i < steps; ++i) x = net.run({x}, 64 + random() % 1'000'000);
    return net.lifetimes();
}

/// Bottleneck blocks: 1×1, 3×3, 1×1, addition; resolution halves and channels double four times.
inline std::vector<Lifetime> residual(uint32_t blocks) {
    Network net;
    size_t bytes = 56 * 56 * 256 * 4;
    auto x = net.run({}, bytes);
    for (uint32_t i = 0; i < blocks; ++i) {
        if (i && i % (blocks / 4 + 1) == 0) x = net.run({x}, bytes /= 2);
        auto y = net.run({x}, bytes / 4);
        y = net.run({net.run({y}, bytes / 4)}, bytes);
        x = net.run({y, x}, bytes, true);
    }
    return net.lifetimes();
}

inline std::vector<Lifetime> unet(uint32_t depth, uint32_t convolutions) {
    Network net;
    size_t bytes = size_t(512) * 512 * 64 * 4;
    std::vector<Network::Tensor> skips;
    auto x = net.run({}, bytes);
    for (uint32_t level = 0; level < depth; ++level) {
        for (uint32_t i = 0; i < convolutions; ++i) x = net.run({net.run({x}, bytes)}, bytes, true);
        skips.push_back(x);
        x = net.run({x}, bytes /= 2);
    }
    for (uint32_t level = depth; level-- > 0;) {
        x = net.run({x}, bytes *= 2);
        x = net.run({x, skips[level]}, 2 * bytes);
        for (uint32_t i = 0; i < convolutions; ++i) x = net.run({net.run({x}, bytes)}, bytes, true);
    }
    return net.lifetimes();
}

/// Pre-norm layers with the scores kept as a tensor; all heads' keys and values are outputs that live to the end.
inline std::vector<Lifetime> transformer(uint32_t layers, size_t tokens, bool cache) {
    Network net;
    size_t hidden = tokens * 768 * 4, scores = 12 * tokens * tokens * 4;
    std::vector<Network::Tensor> kept;
    auto x = net.run({}, hidden);
    for (uint32_t i = 0; i < layers; ++i) {
        auto norm = net.run({x}, hidden);
        auto q = net.run({norm}, hidden), k = net.run({norm}, hidden), v = net.run({norm}, hidden);
        if (cache) kept.push_back(k), kept.push_back(v);
        auto s = net.run({net.run({q, k}, scores)}, scores, true);
        auto y = net.run({net.run({s, v}, hidden)}, hidden);
        x = net.run({y, x}, hidden, true);
        y = net.run({net.run({net.run({x}, hidden)}, 4 * hidden)}, 4 * hidden, true);
        x = net.run({net.run({y}, hidden), x}, hidden, true);
    }
    net.run(kept.empty() ? std::vector{x} : kept, hidden);
    return net.lifetimes();
}

/// Any sizes, any intervals of at most `longest` steps, some of them reusing or renaming others.
inline std::vector<Lifetime> random_lifetimes(std::mt19937& random, uint32_t count, uint32_t steps, uint32_t longest,
                                              bool aliases = true) {
    std::vector<Lifetime> lives;
    for (uint32_t i = 0; i < count; ++i) {
        auto first = static_cast<uint32_t>(random() % steps);
        auto last = std::min<uint32_t>(first + random() % longest, steps - 1);
        Lifetime life{random() % 10 == 0 ? 0 : random() % 5000, first, last};
        if (i && random() % 3 == 0) {
            life.reuse = static_cast<uint32_t>(random() % i);
            life.first_step = lives[life.reuse].last_step;
            life.last_step = std::min<uint32_t>(life.first_step + random() % longest, steps - 1);
        }
        if (aliases && i && random() % 8 == 0) life.alias = static_cast<uint32_t>(random() % i);
        lives.push_back(life);
    }
    return lives;
}

}  // namespace refactor::mem_manager::test
