#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Four words for a key and a counter: ten rounds of Philox4x32.
struct Philox {
    uint32_t words[4];

    Philox(uint64_t key, uint64_t low, uint64_t high) {
        uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
        uint32_t c[4]{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                      static_cast<uint32_t>(high >> 32)};
        for (int round = 0; round < 10; ++round) {
            uint64_t p = uint64_t{0xd2511f53} * c[0], q = uint64_t{0xcd9e8d57} * c[2];
            uint32_t next[4]{static_cast<uint32_t>(q >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(q),
                             static_cast<uint32_t>(p >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p)};
            for (int i = 0; i < 4; ++i) c[i] = next[i];
            k0 += 0x9e3779b9, k1 += 0xbb67ae85;
        }
        for (int i = 0; i < 4; ++i) words[i] = c[i];
    }
    /// Number `i` of two in [0, 1) with 53 bits.
    double uniform(int i) const {
        auto bits = uint64_t{words[2 * i]} << 32 | words[2 * i + 1];
        return static_cast<double>(bits >> 11) * 0x1p-53;
    }
};

}  // namespace refactor::kernel
