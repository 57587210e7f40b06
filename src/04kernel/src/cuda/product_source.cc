#include "cuda/product_source.h"

#include <bit>
#include <cstdio>

namespace refactor::kernel::cuda {

namespace {

char const* const kArguments = R"cuda(
struct rg_product_args {
    rg_u64 a, b, scales, bias, residual, y, partial, norm_scale, norm_bias;
    rg_i64 m, n, k, batches;
    rg_i64 size[4], step_a[4], step_b[4];
    rg_i64 row_tiles, column_tiles, splits, inner_each;
};
RG_FN void find_batch(rg_product_args const& p, Index batch, A const*& a, B const*& b) {
    a = (A const*)p.a, b = (B const*)p.b;
    for (int axis = 0; axis < 4; ++axis) {
        Index i = batch % (Index)p.size[axis];
        batch /= (Index)p.size[axis];
        a += i * (Index)p.step_a[axis], b += i * (Index)p.step_b[axis];
    }
}
RG_FN Index place_of(rg_product_args const& p, Index batch, int row, int column) {
    return (batch * (Index)p.m + row) * (Index)p.n + column;
}
// What comes behind a sum, as it is loaded.
struct Ending {
    float scale;
    A bias, residual;
    RG_MEMBER void fetch_column(rg_product_args const& p, int column) {
        if (kScaled) scale = ((float const*)p.scales)[column];
        if (kBias) bias = ((A const*)p.bias)[kScalarBias ? 0 : column];
    }
    RG_MEMBER void fetch_residual(rg_product_args const& p, Index place) {
        if (kResidual) residual = ((A const*)p.residual)[place];
    }
    RG_MEMBER void end(rg_product_args const& p, Index place, Sum value) const {
        if (kScaled) value *= (Sum)scale;
        if (kAlpha != 1.f) value *= (Sum)kAlpha;
        if (kBias) value += rg_load(bias);
        if (kResidual && !kResidualLast) value += rg_load(residual);
        value = activate(value);
        if (kResidual && kResidualLast) value += rg_load(residual);
        rg_store(((A*)p.y)[place], value);
    }
};
RG_FN void finish(rg_product_args const& p, Index batch, int row, int column, Sum value) {
    const Index place = place_of(p, batch, row, column);
    Ending ending;
    ending.fetch_column(p, column);
    ending.fetch_residual(p, place);
    ending.end(p, place, value);
}
)cuda";

char const* const kTiled = R"cuda(
// A line of A or B that is contiguous along the inner size.
template <class Element, bool VECTOR, int RUN> struct Line {
    static constexpr bool runs = true;
    Element const* line;
    bool inside;
    int count, first;
    RG_MEMBER void fetch(int slab, Sum* to) {
        int k = slab * Tile::depth + first;
        rg_vec<Element, RUN> run = {};
        if (VECTOR) {
            if (inside && k < count) run = *(rg_vec<Element, RUN> const*)(line + k);
        } else {
#pragma unroll
            for (int i = 0; i < RUN; ++i)
                if (inside && k + i < count) run.v[i] = line[k + i];
        }
#pragma unroll
        for (int i = 0; i < RUN; ++i) to[i] = (Sum)rg_load(run.v[i]);
    }
};
// One that has a step between its elements.
template <class Element, int RUN> struct Stepped {
    static constexpr bool runs = false;
    Element const* line;
    bool inside;
    int count, first;
    Index step;
    RG_MEMBER Sum at(int slab, int i) {
        int k = slab * Tile::depth + i;
        return inside && k < count ? (Sum)rg_load(line[k * step]) : Sum(0);
    }
    RG_MEMBER void fetch(int slab, Sum* to) {
#pragma unroll
        for (int i = 0; i < RUN; ++i) to[i] = at(slab, first + i);
    }
};

template <class Rows>
RG_FN void multiply(Tile& tile, Tile::Shared& shared, Rows& rows, B const* b, int column, int n, int k) {
    rg_no_plan none;
    int slabs = (k + Tile::depth - 1) / Tile::depth;
    if constexpr (kTransB) {
        Line<B, kVectorB, Tile::b_run> columns{b + column * (Index)k, column < n, k, Tile::b_place(true, 0)};
        tile.run(shared, 0, slabs, none, rows, columns);
    } else {
        Stepped<B, Tile::b_run> columns{b + column, column < n, k, 0, n};
        tile.run(shared, 0, slabs, none, rows, columns);
    }
}

RG_GLOBAL rg_product(rg_product_args p) {
    RG_WAIT();
    __shared__ Tile::Shared shared;
    unsigned block = blockIdx.x;
    const int first_row = block % (unsigned)p.row_tiles * Tile::rows; block /= (unsigned)p.row_tiles;
    const int first_column = block % (unsigned)p.column_tiles * Tile::columns; block /= (unsigned)p.column_tiles;
    const Index batch = block;
    const int m = p.m, n = p.n, k = p.k;
    A const* a;
    B const* b;
    find_batch(p, batch, a, b);

    Tile tile;
    tile.clear();
    int row = first_row + Tile::a_row(), column = first_column + Tile::b_column(kTransB);
    if constexpr (kTransA) {
        Stepped<A, Tile::a_run> rows{a + row, row < m, k, Tile::a_first(), m};
        multiply(tile, shared, rows, b, column, n, k);
    } else {
        Line<A, kVectorA, Tile::a_run> rows{a + row * (Index)k, row < m, k, Tile::a_first()};
        multiply(tile, shared, rows, b, column, n, k);
    }
#pragma unroll
    for (int i = 0; i < Tile::rows_each; ++i) {
        row = first_row + tile.row(i);
#pragma unroll
        for (int j = 0; j < Tile::columns_each; ++j) {
            column = first_column + tile.column(j);
            if (row < m && column < n) finish(p, batch, row, column, tile.sum[i][j]);
        }
    }
}
)cuda";

char const* const kRowsAsTheyAre = R"cuda(
RG_FN A const* rows_of_a(rg_product_args const&, A const* a) {
    if (kConstantB) RG_WAIT();
    return a;
}
)cuda";

char const* const kRows = R"cuda(
constexpr int kRun = 16 / sizeof(B), kUnroll = 4;
typedef rg_vec<B, kRun> Run;

RG_FN Run run_at(B const* b, bool vector, int left) {
    Run run = {};
    if (vector) return *(Run const*)b;
#pragma unroll
    for (int i = 0; i < kRun; ++i)
        if (i < left) run.v[i] = b[i];
    return run;
}
// Both as they are loaded.
typedef rg_vec<A, kRun> Factors;
RG_FN rg_raw<Factors> factors_at(A const* a, int left) {
    rg_raw<Factors> raw = {};
    if (kVectorA) {
        if (left > 0) raw = *(rg_raw<Factors> const*)a;
        return raw;
    }
    Factors x = {};
#pragma unroll
    for (int i = 0; i < kRun; ++i)
        if (i < left) x.v[i] = a[i];
    memcpy(&raw, &x, sizeof x);
    return raw;
}
RG_FN rg_raw<Run> raw_run_at(B const* b, int left) {
    if (kVectorB) return *(rg_raw<Run> const*)b;
    Run run = run_at(b, false, left);
    rg_raw<Run> raw;
    memcpy(&raw, &run, sizeof run);
    return raw;
}
RG_FN void put(rg_product_args const& p, Index batch, int split, int row, int column, Sum value) {
    if (p.splits == 1)
        finish(p, batch, row, column, value);
    else
        ((Sum*)p.partial)[(((Index)split * (Index)p.batches + batch) * (Index)p.m + row) * (Index)p.n + column] = value;
}

// A warp has kColumns columns, its threads runs of their inner size, kSteps of which it fetches at a time. Each thread
// ends one sum, of which it knows early where it is.
RG_FN void columns_of_warp(rg_product_args const& p, Index batch, int split, int first, A const* a, B const* b) {
    const int n = p.n, k = p.k, lane = threadIdx.x % 32, column = first + threadIdx.x / 32 * kColumns;
    int begin = split * (int)p.inner_each, end = begin + (int)p.inner_each;
    end = end < k ? end : k;
    rg_raw<Run> raw[kSteps][kColumns];
    auto fetch = [&](int at) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
            for (int j = 0; j < kColumns; ++j) {
                int i = at + step * 32 * kRun;
                raw[step][j] = {};
                if (column + j < n && i < end) raw[step][j] = raw_run_at(b + (column + j) * (Index)k + i, end - i);
            }
    };
    Sum sum[kRows][kColumns] = {};
    int at = begin + lane * kRun;
    fetch(at);
    // Threads without a sum read what another one does.
    const int own = column + lane % kColumns, known = own < n ? own : n - 1;
    const Index place = place_of(p, batch, lane / kColumns % kRows, known);
    Ending ending;
    if (kConstantColumns) ending.fetch_column(p, known);
    a = rows_of_a(p, a);
    if (!kConstantColumns) ending.fetch_column(p, known);
    ending.fetch_residual(p, place);
    while (at < end) {
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            rg_raw<Factors> factors[kSteps];
#pragma unroll
            for (int step = 0; step < kSteps; ++step)
                factors[step] = factors_at(a + row * (Index)k + at + step * 32 * kRun, end - at - step * 32 * kRun);
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                Factors x = rg_taken<Factors>(factors[step]);
#pragma unroll
                for (int j = 0; j < kColumns; ++j) {
                    Run run = rg_taken<Run>(raw[step][j]);
#pragma unroll
                    for (int e = 0; e < kRun; ++e)
                        sum[row][j] = rg_mad((Sum)rg_load(x.v[e]), (Sum)rg_load(run.v[e]), sum[row][j]);
                }
            }
        }
        at += kSteps * 32 * kRun;
        if (at < end) fetch(at);
    }
    Sum total = Sum(0);
#pragma unroll
    for (int row = 0; row < kRows; ++row)
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
#pragma unroll
            for (int other = 16; other > 0; other /= 2) sum[row][j] += __shfl_xor_sync(0xffffffffu, sum[row][j], other);
            total = lane == row * kColumns + j ? sum[row][j] : total;
        }
    if (lane >= kRows * kColumns || own >= n) return;
    if (p.splits == 1)
        ending.end(p, place, total);
    else
        ((Sum*)p.partial)[split * (Index)p.batches * (Index)p.m * (Index)p.n + place] = total;
}

// 8 threads have a run of columns each, and of those there are 32 for different places in the inner size.
RG_FN void runs_of_columns(rg_product_args const& p, Index batch, int split, int first, A const* a, B const* b) {
    __shared__ Sum shared[8][8 * kRun];
    const int n = p.n, k = p.k, thread = threadIdx.x, column = first + thread % 8 * kRun;
    int begin = split * (int)p.inner_each, end = begin + (int)p.inner_each;
    end = end < k ? end : k;
    Sum sum[kRows][kRun] = {};
    if (column < n)
        for (int i = begin + thread / 8; i < end; i += 32 * kUnroll) {
            Run run[kUnroll];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u)
                if (i + u * 32 < end) run[u] = run_at(b + (i + u * 32) * (Index)n + column, kVectorB, n - column);
                else run[u] = {};
#pragma unroll
            for (int u = 0; u < kUnroll; ++u)
#pragma unroll
                for (int row = 0; row < kRows; ++row) {
                    Sum x = i + u * 32 < end ? (Sum)rg_load(a[row * (Index)k + i + u * 32]) : Sum(0);
#pragma unroll
                    for (int e = 0; e < kRun; ++e) sum[row][e] = rg_mad(x, (Sum)rg_load(run[u].v[e]), sum[row][e]);
                }
        }
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
            Sum& x = sum[row][e];
            x += __shfl_xor_sync(0xffffffffu, x, 8);
            x += __shfl_xor_sync(0xffffffffu, x, 16);
            if (thread % 32 < 8) shared[thread / 32][thread % 8 * kRun + e] = x;
        }
        __syncthreads();
        if (thread < 8 * kRun && first + thread < n) {
            Sum value = Sum(0);
            for (int warp = 0; warp < 8; ++warp) value += shared[warp][thread];
            put(p, batch, split, row, first + thread, value);
        }
        __syncthreads();
    }
}

RG_GLOBAL rg_product(rg_product_args p) {
    unsigned block = blockIdx.x;
    const int tile = block % (unsigned)p.column_tiles; block /= (unsigned)p.column_tiles;
    const int split = block % (unsigned)p.splits; block /= (unsigned)p.splits;
    A const* a;
    B const* b;
    find_batch(p, (Index)block, a, b);
    // Columns of constants are fetched before what is multiplied by them is there.
    if (!kTransB || !kConstantB) RG_WAIT();
    if (kTransB)
        columns_of_warp(p, block, split, tile * kColumns * (blockDim.x / 32), a, b);
    else
        runs_of_columns(p, block, split, tile * 8 * kRun, a, b);
}

RG_GLOBAL rg_product_sum(rg_product_args p) {
    RG_WAIT();
    const Index matrix = (Index)p.m * (Index)p.n, total = (Index)p.batches * matrix;
    RG_FOR(Index, target, total) {
        Sum sum = Sum(0);
        for (int split = 0; split < (int)p.splits; ++split) sum += ((Sum const*)p.partial)[split * total + target];
        finish(p, target / matrix, target % matrix / (Index)p.n, target % (Index)p.n, sum);
    }
}
)cuda";

std::string constant(char const* name, bool value) {
    return std::string("constexpr bool ") + name + " = " + (value ? "true" : "false") + ";\n";
}

std::string beginning(ProductKind const& kind) {
    auto const& after = kind.info.epilogue;
    char alpha[40];
    std::snprintf(alpha, sizeof alpha, "%.9ef", static_cast<double>(kind.info.alpha));
    return std::string("typedef ") + element_text(kind.a) + " A;\ntypedef " + weight_text(kind.b) + " B;\ntypedef " +
           sum_text(kind.a) + " Sum;\ntypedef " + (kind.wide ? "rg_i64" : "int") +
           " Index;\nconstexpr int kRows = " + std::to_string(kind.rows) +
           ", kColumns = " + std::to_string(kind.columns) + ", kSteps = " + std::to_string(kind.steps) +
           ";\nconstexpr float kAlpha = " + alpha + ";\n" + constant("kTransA", kind.info.trans_a) +
           constant("kTransB", kind.info.trans_b) + constant("kConstantB", kind.constant_b) +
           constant("kConstantColumns", kind.constant_columns) + constant("kScaled", kind.info.scaled) +
           constant("kVectorA", kind.vector_a) + constant("kVectorB", kind.vector_b) + constant("kBias", after.bias) +
           constant("kScalarBias", kind.scalar_bias) + constant("kResidual", after.residual) +
           constant("kResidualLast", after.residual_last) + activation_source(after.activation, "activate") +
           kArguments;
}

}  // namespace

char const* weight_text(DataType type) {
    if (type == DataType::F8E4M3FN) return "rg_f8_e4m3";
    return type == DataType::F8E5M2 ? "rg_f8_e5m2" : element_text(type);
}

std::string why_weights_differ(MatMulInfo const& info, Request const& request) {
    auto text = [](DataType type) { return std::string(refactor::name_of(type)); };
    auto a = request.inputs[0].dtype, b = request.inputs[1].dtype;
    bool wide = a == DataType::F32 || a == DataType::F16 || a == DataType::BF16;
    bool f8 = b == DataType::F8E4M3FN || b == DataType::F8E5M2;
    bool half = a == DataType::F32 && (b == DataType::F16 || b == DataType::BF16);
    bool small = wide && (f8 || (info.scaled ? b == DataType::I8 : half));
    if (info.scaled && !small)
        return "scaled " + text(b) + " with " + text(a) + ", expected i8 or f8 with f32, f16 or bf16";
    for (size_t i = 0; i < request.inputs.size(); ++i) {
        auto expected = info.scaled && i == 2 ? DataType::F32 : small && i == 1 ? b : a;
        if (auto const& input = request.inputs[i]; !input.absent() && input.dtype != expected)
            return "input " + std::to_string(i) + " is " + text(input.dtype) + ", expected " + text(expected);
    }
    return {};
}

std::string ProductKind::key() const {
    std::string key;
    for (auto size : {int64_t{rows}, int64_t{columns}, int64_t{steps}, int64_t{tile}, inner})
        key += std::to_string(size) + '/';
    for (bool flag : {scalar_bias, wide, vector_a, vector_b}) key += flag ? '1' : '0';
    return key;
}

ProductWords::ProductWords(MatMulShape const& shape) : m(shape.m), n(shape.n), k(shape.k), batches(shape.batches) {
    for (size_t i = 0; i < kMostBatchAxes; ++i) {
        bool exists = i < shape.batch.size();
        auto axis = exists ? shape.batch[shape.batch.size() - 1 - i] : MatMulShape::Axis{1, 0, 0};
        size[i] = axis.size, step_a[i] = axis.a, step_b[i] = axis.b;
    }
}

std::string tiled_product_source(ProductKind const& kind) {
    auto tile = kind.tile == 128 ? "128, 128, 8, 8, 8" : "64, 64, 16, 4, 4";
    return std::string(kPrelude) + kElementSource + kTileSource + beginning(kind) + "typedef rg_tile<Sum, " + tile +
           "> Tile;\n" + kTiled;
}

std::string row_product_source(ProductKind const& kind) {
    return std::string(kPrelude) + kElementSource + beginning(kind) +
           (kind.norm ? normalized_rows_source(kind) : kRowsAsTheyAre) + kRows;
}

}  // namespace refactor::kernel::cuda
