#pragma once
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace refactor {

/// Seed of a randomised test: `RG_TEST_SEED` if set, else `usual`, else a new one. Tests name it beside a failure:
/// `seed_text`.
inline uint64_t test_seed(std::optional<uint64_t> usual = {}) {
    if (auto const* text = std::getenv("RG_TEST_SEED")) return std::strtoull(text, nullptr, 10);
    return usual ? *usual : std::random_device{}();
}

/// What to set for a test to run again as it did.
inline std::string seed_text(uint64_t seed) { return "RG_TEST_SEED=" + std::to_string(seed); }

/// A randomised test whose failures name the seed.
class RandomTest : public ::testing::Test {
protected:
    uint64_t seed_ = test_seed();
    std::mt19937 rng_{static_cast<uint32_t>(seed_)};

private:
    ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_text(seed_)};
};

}  // namespace refactor
