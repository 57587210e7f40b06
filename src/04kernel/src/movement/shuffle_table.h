#pragma once
#include <cstddef>
#include <cstdint>

namespace refactor::kernel::movement {

/// How a block of the source, of at most 64 bytes, becomes one of the target that consists of its elements in another
/// order, some of them several times or not at all.
///
/// In two forms: for vectors of 16 bytes, each made of bytes of up to four pieces of the source, or of two halves, and,
/// where elements have two bytes or more, for vectors of 64 bytes, each made of words of the whole block. The last
/// vector of a target ends with it and may overlap the one before: nothing is read or written beside blocks.
struct ShuffleTable {
    static constexpr int kMostIn = 64, kMostOut = 512, kUnit = 16, kUnits = kMostOut / kUnit, kPieces = 4;
    static constexpr int kVector = 64, kVectors = kMostOut / kVector;

    int in = 0, out = 0;  ///< bytes of a block
    int units = 0, pieces = 0;
    uint16_t to[kUnits] = {};            ///< where a unit begins
    uint8_t from[kUnits][kPieces] = {};  ///< where its pieces begin
    alignas(kUnit) signed char order[kUnits][kPieces][kUnit] = {};
    bool by_halves = false;          ///< units are two elements of 8 bytes
    uint8_t halves[kUnits][2] = {};  ///< where these begin
    alignas(kVector) uint16_t words[kVectors][kVector / 2] = {};
};

/// `count` blocks that are `src_step` bytes apart become blocks `dst_step` bytes apart.
using ShuffleFunction = void (*)(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst,
                                 int64_t dst_step, int64_t count);

}  // namespace refactor::kernel::movement
