#pragma once
#include <cstdint>
#include <cstdlib>
#include <random>

namespace refactor {

/// Seed of a randomised test: `RG_TEST_SEED` if set, else a new one. Tests print it with `SCOPED_TRACE`.
inline uint64_t test_seed() {
    if (auto const* text = std::getenv("RG_TEST_SEED")) return std::strtoull(text, nullptr, 10);
    return std::random_device{}();
}

}  // namespace refactor
