#pragma once
#include "common/cpu_features.h"
#include "common/data_type.h"
#include "kernel/ops/elementwise.h"

#include <cstddef>
#include <cstdint>

/// The instructions of a tile program: each is one loop over a tile of a few thousand elements.
///
/// A tile is processed in blocks of `kBlock` elements whatever their type. An operand is either a run of elements or
/// `kRepeat` elements that stand for the whole tile (a scalar 32 times, or the channels of a blocked layout), so a
/// single function serves both: every `kRepeat` elements the pointer advances by as many or not at all.
namespace refactor::kernel::elementwise {

inline constexpr int64_t kBlock = 16;
/// Elements of an operand that is repeated over a tile: the channels in a block of nChw32c.
inline constexpr int64_t kRepeat = 2 * kBlock;
/// Bytes of a slot that holds as many of the widest type.
inline constexpr int64_t kRepeatBytes = kRepeat * 8;

struct TileOp;
/// Computes the first `n` elements of slot `op.out` from the slots of the operands.
using TileFunction = void (*)(TileOp const& op, std::byte* const* slots, int64_t n);

struct TileOp {
    TileFunction run = nullptr;
    uint16_t out = 0, in[3]{};  ///< slots
    uint8_t repeated = 0;       ///< bit i: operand i is `kRepeat` elements for the whole tile
    bool padded = false;        ///< all operands and the result may be accessed up to the end of the last block
    float alpha = 0, beta = 0;
};

/// What a tile instruction computes: the operators of `ExprOp` and some that only lowering makes.
enum class TileCode : uint8_t {
    FirstExtra = 200,
    Copy = FirstExtra,  ///< any type, by its size
    Round,              ///< f32 rounded to `operand` (f16, bf16, f8) and back
    Square,
    Cube,
    SquareRootPower,  ///< pow(x, 0.5)
    Dequantize,       ///< (x - zero) * scale: u8 or i8, f32, f32
    RoundToByte,      ///< round(x) + zero within the range of u8 or i8: f32, f32
    QuantizeToByte,   ///< the same of x / scale: f32, f32 (zero), f32
    MulAdd,           ///< x * y, rounded, + z
};
constexpr TileCode code_of(ExprOp op) { return static_cast<TileCode>(op); }
constexpr ExprOp op_of(TileCode code) { return static_cast<ExprOp>(code); }

/// What identifies a tile function. `operand` is the type of the first operand that is not a condition; only `Cast`
/// changes types otherwise than by its operator. f16, bf16 and f8 occur in `Cast` from or to f32 and in `Round` alone,
/// but for operators of f32 that load or store bf16.
struct TileKey {
    TileCode code;
    DataType operand, result;
    uint8_t narrow = 0;  ///< bit i: operand i is bf16, though `operand` is f32
    bool relu = false;   ///< negative results become zero

    /// Whether it is an operator of f32 that loads or stores bf16.
    bool has_bf16() const {
        bool stores = operand == DataType::F32 && result == DataType::BF16 && code != code_of(ExprOp::Cast);
        return narrow || relu || stores;
    }
};

/// Writes `rows` rows of `bytes` bytes one behind the other; what they are made of is `stride` bytes on from row to
/// row. May overwrite 63 bytes behind the last.
using SpreadFunction = void (*)(std::byte* to, std::byte const* from, int64_t stride, int64_t rows, int64_t bytes);
struct SpreadKey {
    int32_t element_bytes;
    bool single;  ///< a row is one element, repeated
    int64_t row_bytes;
};

SpreadFunction spread_generic(SpreadKey key);
SpreadFunction spread_avx2(SpreadKey key);
SpreadFunction spread_avx512(SpreadKey key);

/// Portable C++: everything that is defined; null if the combination is not (Sqrt of integers …).
TileFunction tile_generic(TileKey key);
/// For instruction sets: null where the portable function has to do.
TileFunction tile_avx2(TileKey key);
TileFunction tile_avx512(TileKey key);
/// For operators of f32 that load or store bf16, and those alone.
TileFunction tile_avx512bf16(TileKey key);
/// Those of them for operators of f64.
TileFunction tile_f64_avx2(TileCode code);
TileFunction tile_f64_avx512(TileCode code);
/// The portable Div, Mod or Fmod of `n` ≤ kBlock pairs of i32; throws where the quotient has no value.
void exact_i32_division(ExprOp kind, TileOp const& op, int32_t const* a, int32_t const* b, int32_t* out, int64_t n);
/// The portable Mod or Fmod of `n` pairs of f32.
void exact_f32_remainder(ExprOp kind, float const* a, float const* b, float* out, int64_t n);

}  // namespace refactor::kernel::elementwise
