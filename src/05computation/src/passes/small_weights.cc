#include "passes/small_weights.h"

#include "common/half.h"
#include "made_constants.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <vector>

namespace refactor::computation {

namespace {

using mem_manager::Blob;
using Bytes = std::span<void const* const>;

struct Matrix {
    int64_t rows, columns;
    Channels channels;
    bool channels_are_rows() const { return channels == Channels::Rows; }
    int64_t scales() const { return channels_are_rows() ? rows : columns; }
};

// The loops over a row have no branches and no dependence between columns, so that every compiler vectorises them.

void largest_of_columns(float const* row, int64_t columns, float* largest) {
    for (int64_t j = 0; j < columns; ++j) {
        auto magnitude = std::abs(row[j]);
        largest[j] = magnitude > largest[j] ? magnitude : largest[j];
    }
}

/// `inverse`: of the scales of all columns, or of the row alone if `step` is 0.
template <int step>
void quantize_row(float const* row, int64_t columns, float const* inverse, int8_t* to) {
    for (int64_t j = 0; j < columns; ++j)
        to[j] = static_cast<int8_t>(std::bit_cast<int32_t>(row[j] * inverse[j * step] + kRounder));
}

/// Adds what rounding changes to `changed`, and the elements to `all`, both squared.
template <int step>
void add_errors(float const* row, int64_t columns, float const* inverse, float const* scales, float* changed,
                float* all) {
    for (int64_t j = 0; j < columns; ++j) {
        auto error = row[j] - (row[j] * inverse[j * step] + kRounder - kRounder) * scales[j * step];
        changed[j] += error * error, all[j] += row[j] * row[j];
    }
}

/// The same for small floats: `type` is known outside of the loop, so that its conversions are one function each.
template <int step>
void encode_row(float const* row, int64_t columns, float const* inverse, DataType type, int8_t* to) {
    for (int64_t j = 0; j < columns; ++j) to[j] = static_cast<int8_t>(f8_from_f32(type, row[j] * inverse[j * step]));
}

template <int step>
void add_encoding_errors(float const* row, int64_t columns, float const* inverse, float const* scales, DataType type,
                         float* changed, float* all) {
    for (int64_t j = 0; j < columns; ++j) {
        auto kept = f32_from_f8(type, f8_from_f32(type, row[j] * inverse[j * step])) * scales[j * step];
        auto error = row[j] - kept;
        changed[j] += error * error, all[j] += row[j] * row[j];
    }
}

/// The largest magnitude that the type holds, of I8 without its lowest number.
float most_of(DataType type) { return type == DataType::I8 ? 127 : f32_from_f8(type, f8_from_f32(type, FLT_MAX)); }

double ratio(std::vector<float> const& changed, std::vector<float> const& all) {
    double a = 0, b = 0;
    for (auto x : changed) a += static_cast<double>(x);
    for (auto x : all) b += static_cast<double>(x);
    return b > 0 ? std::sqrt(a / b) : 0;
}

float inverse_of(float scale) { return scale > 0 ? 1 / scale : 0; }

template <int step>
void write_row(float const* row, int64_t columns, float const* inverse, DataType type, int8_t* to) {
    if (type == DataType::I8)
        quantize_row<step>(row, columns, inverse, to);
    else
        encode_row<step>(row, columns, inverse, type, to);
}

void write_quantized(Matrix const& m, DataType type, float const* row, float const* scales, int8_t* to) {
    std::vector<float> inverse;
    for (int64_t i = 0; i < m.scales(); ++i) inverse.push_back(inverse_of(scales[i]));
    for (int64_t i = 0; i < m.rows; ++i, row += m.columns, to += m.columns)
        if (m.channels_are_rows())
            write_row<0>(row, m.columns, &inverse[static_cast<size_t>(i)], type, to);
        else
            write_row<1>(row, m.columns, inverse.data(), type, to);
}

void transpose_bytes(char const* from, int64_t rows, int64_t columns, char* to) {
    // A line of the cache has 64 elements of either matrix.
    constexpr int64_t kTile = 64;
    for (int64_t i0 = 0; i0 < rows; i0 += kTile)
        for (int64_t j0 = 0; j0 < columns; j0 += kTile)
            for (int64_t j = j0; j < std::min(j0 + kTile, columns); ++j)
                for (int64_t i = i0; i < std::min(i0 + kTile, rows); ++i) to[j * rows + i] = from[i * columns + j];
}

Result<SmallWeights, std::string> round_to(SharedBlob const& from, DataType type) {
    constexpr int64_t kPart = 4096;
    std::vector<uint16_t> small(kPart);
    std::vector<float> back(kPart), changed(kPart), all(kPart);
    Blob::Reader reader(*from);
    auto const* data = static_cast<float const*>(reader.data());
    auto count = static_cast<int64_t>(from->bytes() / sizeof(float));
    for (int64_t i = 0; i < count; i += kPart) {
        auto part = std::min(kPart, count - i);
        convert(DataType::F32, data + i, type, small.data(), part);
        convert(type, small.data(), DataType::F32, back.data(), part);
        for (size_t j = 0; j < static_cast<size_t>(part); ++j) {
            auto x = data[i + static_cast<int64_t>(j)], error = x - back[j];
            changed[j] += error * error, all[j] += x * x;
        }
    }
    auto error = ratio(changed, all);
    if (!std::isfinite(error)) return Err{std::string("an element is not finite or too large")};
    auto source =
        made_of({from}, [=](Bytes sources, void* to) { convert(DataType::F32, sources[0], type, to, count); });
    return SmallWeights{Blob::lazy(from->bytes() / 2, std::move(source)), nullptr, error};
}

template <int step>
void add_errors_of(DataType type, float const* row, int64_t columns, float const* inverse, float const* scales,
                   float* changed, float* all) {
    if (type == DataType::I8)
        add_errors<step>(row, columns, inverse, scales, changed, all);
    else
        add_encoding_errors<step>(row, columns, inverse, scales, type, changed, all);
}

Result<SmallWeights, std::string> quantize(SharedBlob const& from, Matrix const& m, DataType type) {
    auto most = most_of(type);
    std::vector<float> scales(static_cast<size_t>(m.scales())), inverse(scales.size()),
        changed(static_cast<size_t>(m.columns)), all(changed.size()), largest(changed.size());
    Blob::Reader reader(*from);
    auto const* data = static_cast<float const*>(reader.data());
    for (int64_t i = 0; i < m.rows; ++i) {
        largest_of_columns(data + i * m.columns, m.columns, largest.data());
        if (!m.channels_are_rows()) continue;
        auto& scale = scales[static_cast<size_t>(i)];
        for (auto& x : largest) scale = std::max(scale, x), x = 0;
    }
    if (!m.channels_are_rows()) scales = std::move(largest);
    if (m.channels == Channels::One && !scales.empty())
        std::fill(scales.begin(), scales.end(), *std::max_element(scales.begin(), scales.end()));
    for (size_t i = 0; i < scales.size(); ++i) {
        if (!std::isfinite(scales[i])) return Err{std::string("an element is infinite")};
        // Below, 1 / scale would be infinite: nothing but zeros.
        scales[i] = scales[i] < (most + 1) * FLT_MIN ? 0 : scales[i] / most;
        inverse[i] = inverse_of(scales[i]);
    }
    for (int64_t i = 0; i < m.rows; ++i) {
        auto const* row = data + i * m.columns;
        auto channel = static_cast<size_t>(i);
        if (m.channels_are_rows())
            add_errors_of<0>(type, row, m.columns, &inverse[channel], &scales[channel], changed.data(), all.data());
        else
            add_errors_of<1>(type, row, m.columns, inverse.data(), scales.data(), changed.data(), all.data());
    }
    auto error = ratio(changed, all);
    if (!std::isfinite(error)) return Err{std::string("an element is no number")};
    SharedBlob kept = Blob::copy_of(scales.data(), scales.size() * sizeof(float));
    auto source = made_of({from, kept}, [=](Bytes sources, void* to) {
        write_quantized(m, type, static_cast<float const*>(sources[0]), static_cast<float const*>(sources[1]),
                        static_cast<int8_t*>(to));
    });
    return SmallWeights{Blob::lazy(static_cast<size_t>(m.rows * m.columns), std::move(source)), kept, error};
}

}  // namespace

Result<SmallWeights, std::string> make_small_weights(SharedBlob const& matrix, DataType type, int64_t rows,
                                                     int64_t columns, Channels channels) {
    if (bits_of(type) == 8) return quantize(matrix, {rows, columns, channels}, type);
    return round_to(matrix, type);
}

SharedBlob transposed_bytes(SharedBlob matrix, int64_t rows, int64_t columns) {
    auto bytes = matrix->bytes();
    return Blob::lazy(bytes, made_of({std::move(matrix)}, [=](Bytes sources, void* to) {
                          transpose_bytes(static_cast<char const*>(sources[0]), rows, columns, static_cast<char*>(to));
                      }));
}

SharedBlob widened(SharedBlob matrix, DataType type) {
    auto count = static_cast<int64_t>(matrix->bytes() * 8) / bits_of(type);
    return Blob::lazy(static_cast<size_t>(count) * sizeof(float),
                      made_of({std::move(matrix)},
                              [=](Bytes sources, void* to) { convert(type, sources[0], DataType::F32, to, count); }));
}

}  // namespace refactor::computation
