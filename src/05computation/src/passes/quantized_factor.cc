#include "passes/quantized_factor.h"

#include "common/half.h"
#include "passes/constants.h"

#include <algorithm>
#include <bit>

namespace refactor::computation {

namespace {

using mem_manager::Blob;
using I = kernel::BlockMatMulInfo;

/// Columns that are repacked at a time: of a row of [K, N] whole lines of the cache.
constexpr int64_t kColumns = 64;
/// The smallest block that kernels take: a vector of f32.
constexpr int64_t kLeastBlock = 16;

/// Numbers as unsigned ones are so much larger: two's complement with the other sign bit.
int32_t offset_of(DataType type) { return is_signed(type) ? 1 << (bits_of(type) - 1) : 0; }
int64_t count_of(EdgePtr constant) { return element_count(constant->value.shape).constant().value_or(0); }

/// Numbers [rows, columns] as unsigned ones of the same bits: each column (each row if `transposed`) behind the other,
/// filled up to whole blocks with the middle of their range.
template <int bits>
struct Repacking {
    int64_t n, k, padded;
    bool transposed;
    uint8_t flipped;  ///< bits of a number that change

    static constexpr int kTogether = 8 / bits;
    static constexpr uint8_t kMask = static_cast<uint8_t>((1 << bits) - 1), kMiddle = 1 << (bits - 1);
    static constexpr int64_t kDepth = 256;

    /// `count` numbers from number `first` on, a byte each.
    void unpack(uint8_t const* from, int64_t first, int64_t count, uint8_t* to) const {
        int64_t i = 0;
        if (first % kTogether == 0) {
            from += first / kTogether, first = 0;
            for (int64_t byte = 0; byte < count / kTogether; ++byte)
                for (int part = 0; part < kTogether; ++part)
                    to[byte * kTogether + part] = static_cast<uint8_t>(from[byte] >> (part * bits) & kMask) ^ flipped;
            i = count / kTogether * kTogether;
        }
        for (; i < count; ++i) {
            auto at = first + i;
            to[i] = static_cast<uint8_t>(from[at / kTogether] >> (at % kTogether * bits) & kMask) ^ flipped;
        }
    }
    static void pack(uint8_t const* numbers, int64_t step, int64_t count, uint8_t* to) {
        for (int64_t i = 0; i < count / kTogether; ++i) {
            int byte = 0;
            for (int part = 0; part < kTogether; ++part)
                byte |= numbers[(i * kTogether + part) * step] << (part * bits);
            to[i] = static_cast<uint8_t>(byte);
        }
    }
    void write(uint8_t const* from, uint8_t* to) const {
        std::vector<uint8_t> tile(static_cast<size_t>(kColumns * kDepth));
        auto row = transposed ? kDepth : 1, step = transposed ? 1 : kColumns;  // between columns, between their numbers
        for (int64_t j0 = 0; j0 < n; j0 += kColumns)
            for (int64_t p0 = 0; p0 < padded; p0 += kDepth) {
                auto columns = std::min(kColumns, n - j0), depth = std::min(kDepth, padded - p0),
                     there = std::clamp<int64_t>(k - p0, 0, depth);
                if (there < depth) std::fill(tile.begin(), tile.end(), kMiddle);
                for (int64_t j = 0; transposed && j < columns; ++j)
                    unpack(from, (j0 + j) * k + p0, there, tile.data() + j * row);
                for (int64_t p = 0; !transposed && p < there; ++p)
                    unpack(from, (p0 + p) * n + j0, columns, tile.data() + p * step);
                for (int64_t j = 0; j < columns; ++j)
                    pack(tile.data() + j * row, step, depth, to + ((j0 + j) * padded + p0) / kTogether);
            }
    }
};

/// What makes them.
template <int bits>
Maker repacking(QuantizedFactor const& f) {
    auto const& info = f.info;
    Repacking<bits> const r{info.n, info.k, info.blocks() * info.block, f.transposed,
                            static_cast<uint8_t>(offset_of(f.matrix.type()))};
    return [r](auto from, void* to) { r.write(static_cast<uint8_t const*>(from[0]), static_cast<uint8_t*>(to)); };
}

std::vector<float> floats_of(void const* from, DataType type, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    convert(type, from, DataType::F32, values.data(), count);
    return values;
}

EdgePtr add_scales(Graph& graph, QuantizedFactor const& f, int64_t blocks, float alpha) {
    auto* scale = f.matrix.scale;
    auto n = f.info.n, count = count_of(scale);
    auto name = scale->value.name + "/columns";
    bool lies_so = f.scales.column == blocks && f.scales.block <= 1 && f.scales.ratio == 1 && count == n * blocks;
    if (lies_so && alpha == 1 && scale->value.dtype == DataType::F32)
        return add_constant(graph, name, DataType::F32, {n * blocks}, scale->value.constant);
    auto write = [type = scale->value.dtype, count, n, blocks, alpha, at = f.scales](auto from, void* to) {
        auto const scales = floats_of(from[0], type, count);
        auto* target = static_cast<float*>(to);
        for (int64_t j = 0; j < n; ++j)
            for (int64_t b = 0; b < blocks; ++b) *target++ = scales[static_cast<size_t>(at.at(j, b))] * alpha;
    };
    return add_made(graph, name, DataType::F32, {n * blocks}, {scale->value.constant}, write);
}

/// Packed as the numbers are; null where all are the middle of their range.
EdgePtr add_zeros(Graph& graph, QuantizedFactor const& f) {
    auto const& m = f.matrix;
    auto numbers = m.zero ? numbers_of(m.zero).value() : std::vector<double>(static_cast<size_t>(count_of(m.scale)));
    auto middle = 1 << (f.info.bits - 1), offset = offset_of(m.type());
    auto zero_at = [&](int64_t at) { return static_cast<int32_t>(numbers[static_cast<size_t>(at)]) + offset; };
    bool usual = true;
    for (size_t i = 0; i < numbers.size(); ++i) usual = usual && zero_at(static_cast<int64_t>(i)) == middle;
    if (usual) return nullptr;
    auto row = (f.info.blocks() * f.info.bits + 7) / 8;
    std::vector<uint8_t> packed(static_cast<size_t>(f.info.n * row));
    for (int64_t j = 0; j < f.info.n; ++j)
        for (int64_t b = 0; b < f.info.blocks(); ++b) {
            auto bit = b * f.info.bits;
            packed[static_cast<size_t>(j * row + bit / 8)] |=
                static_cast<uint8_t>(zero_at(f.scales.at(j, b)) << (bit % 8));
        }
    return add_constant(graph, m.data->value.name + "/zeros", DataType::U8, {f.info.n, row},
                        Blob::copy_of(packed.data(), packed.size()));
}

bool is_around_zero(QuantizedMatrix const& m) {
    auto middle = is_signed(m.type()) ? 0. : 128.;
    auto zeros = m.zero ? numbers_of(m.zero) : std::vector<double>{0};
    return bits_of(m.type()) == 8 && zeros &&
           std::all_of(zeros->begin(), zeros->end(), [&](double zero) { return zero == middle; });
}

}  // namespace

Result<QuantizedFactor, std::string> quantized_factor(QuantizedMatrix const& m, bool transposed, int64_t most) {
    QuantizedFactor f{m, transposed, {}, {}, false};
    f.info.n = transposed ? m.rows : m.columns, f.info.k = transposed ? m.columns : m.rows;
    f.info.bits = bits_of(m.type());
    auto depth_axis = transposed ? 1 : 0;
    if (!m.granularity.block) {
        if (!m.has_one_scale() && m.granularity.axis == depth_axis) return Err{"scales are along the sums"};
        f.scales.column = m.has_one_scale() ? 0 : 1;
        f.info.block =
            std::clamp(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(f.info.k))), kLeastBlock, most);
        f.is_symmetric = is_around_zero(m);
        return f;
    }
    auto given = m.granularity.block;
    if (m.granularity.axis != depth_axis) return Err{"blocks of scales are along the columns"};
    f.info.block = std::min(given & -given, most);
    if (f.info.block < kLeastBlock)
        return Err{"blocks of " + std::to_string(given) + " are no multiple of " + std::to_string(kLeastBlock)};
    auto groups = (f.info.k + given - 1) / given;
    f.scales = {transposed ? groups : 1, transposed ? 1 : f.info.n, given / f.info.block};
    return f;
}

std::vector<EdgePtr> block_operands(Graph& graph, QuantizedFactor const& f, float alpha) {
    auto const& m = f.matrix;
    auto const& info = f.info;
    auto bytes = info.block * info.bits / 8;
    auto name = m.data->value.name + "/blocks";
    std::vector<EdgePtr> operands(I::kInputs, nullptr);
    if (f.transposed && info.k % info.block == 0 && !is_signed(m.type())) {
        operands[I::kQ] = add_constant(graph, name, DataType::U8, {info.n, info.blocks(), bytes}, m.blob());
    } else {
        auto make = info.bits == 2 ? repacking<2>(f) : info.bits == 4 ? repacking<4>(f) : repacking<8>(f);
        operands[I::kQ] =
            add_made(graph, name, DataType::U8, {info.n, info.blocks(), bytes}, {m.blob()}, std::move(make));
    }
    operands[I::kScales] = add_scales(graph, f, info.blocks(), alpha);
    operands[I::kZeros] = add_zeros(graph, f);
    return operands;
}

EdgePtr signed_bytes(Graph& graph, QuantizedFactor const& f) {
    auto* data = f.matrix.data;
    if (is_signed(f.matrix.type())) return data;
    auto count = f.matrix.rows * f.matrix.columns;
    return add_made(graph, data->value.name + "/signed", DataType::I8, {f.matrix.rows, f.matrix.columns},
                    {f.matrix.blob()}, [count](auto from, void* to) {
                        auto const* bytes = static_cast<uint8_t const*>(from[0]);
                        std::transform(bytes, bytes + count, static_cast<uint8_t*>(to),
                                       [](uint8_t byte) { return static_cast<uint8_t>(byte ^ 0x80); });
                    });
}

EdgePtr column_scales(Graph& graph, QuantizedFactor const& f) { return add_scales(graph, f, 1, 1); }

}  // namespace refactor::computation
