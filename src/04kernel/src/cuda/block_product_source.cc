#include "cuda/block_product_source.h"

namespace refactor::kernel::cuda {

namespace {

char const* const kArguments = R"cuda(
typedef float Sum;
struct rg_block_args {
    rg_u64 a, q, scales, zeros, order, bias, y, fault;
    rg_i64 m, n, k, block, blocks, row_tiles, column_tiles, matrices, share;
};
constexpr unsigned kMask = (1u << kBits) - 1;
constexpr int kNumbers = 32 / kBits;  // in a word
RG_FN float zero_of(rg_block_args const& p, int column, int block) {
    if (kZeros == 0) return (float)(1 << (kBits - 1));
    if (kZeros == 1) return ((float const*)p.zeros)[column * (Index)p.blocks + block];
    int bit = block * kBits;
    unsigned char const* row = (unsigned char const*)p.zeros + column * (Index)((p.blocks * kBits + 7) / 8);
    return (float)(row[bit / 8] >> bit % 8 & kMask);
}
RG_FN void finish(rg_block_args const& p, int row, int column, float value) {
    if (kBias) value += ((float const*)p.bias)[column];
    rg_store(((A*)p.y)[row * (Index)p.n + column], value);
}
)cuda";

char const* const kRowKernel = R"cuda(
typedef rg_vec<unsigned, kWords> Words;

// Moves to the row that the block computes, and to its matrix; false if there is no such matrix.
RG_FN bool rg_route(rg_block_args& p, int& tile) {
    rg_i64 row = tile / (int)p.column_tiles, given = ((Route const*)p.order)[row];
    rg_i64 matrix = given < 0 ? given + p.matrices : given, first = matrix * p.n;
    if (matrix < 0 || matrix >= p.matrices) {
        rg_report((rg_u64*)p.fault, 1, given);
        return false;
    }
    tile %= (int)p.column_tiles;
    p.a += row / p.share * p.k * (int)sizeof(A), p.y += row * p.n * (int)sizeof(A), p.q += first * p.blocks * p.block * kBits / 8;
    p.scales += first * p.blocks * 4, p.bias += first * 4;
    p.zeros += first * (kZeros == 1 ? p.blocks * 4 : (p.blocks * kBits + 7) / 8);
    return true;
}

RG_GLOBAL rg_block_product(rg_block_args p) {
    RG_WAIT();
    int tile = blockIdx.x;
    if (kRouted && !rg_route(p, tile)) return;
    const int n = p.n, k = p.k, block = p.block, lane = threadIdx.x % 32, column = tile * 32 + threadIdx.x / 32 * 4;
    const int words = (int)p.blocks * block / kNumbers;
    A const* a = (A const*)p.a;
    float sum[kRows][4] = {};
    for (int word = lane * kWords; word < words; word += 32 * kWords) {
        Words packed[4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (column + j < n) packed[j] = *(Words const*)((unsigned const*)p.q + (column + j) * (Index)words + word);
        float part[kRows][4] = {}, elements[kRows] = {};
#pragma unroll
        for (int w = 0; w < kWords; ++w)
#pragma unroll
            for (int i = 0; i < kNumbers; i += 4) {
                int first = (word + w) * kNumbers + i;
                float number[4][4];
#pragma unroll
                for (int j = 0; j < 4; ++j)
#pragma unroll
                    for (int e = 0; e < 4; ++e) number[j][e] = rg_small(packed[j].v[w] >> (i + e) * kBits & kMask);
#pragma unroll
                for (int row = 0; row < kRows; ++row) {
                    typedef rg_vec<A, 4> Four;
                    Four x = {};
                    if (kVector) {
                        rg_raw<Four> raw = {};
                        if (first < k) raw = *(rg_raw<Four> const*)(a + row * (Index)k + first);
                        x = rg_taken<Four>(raw);
                    } else {
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            if (first + e < k) x.v[e] = a[row * (Index)k + first + e];
                    }
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const float one = rg_load(x.v[e]);
                        elements[row] += one;
#pragma unroll
                        for (int j = 0; j < 4; ++j) part[row][j] = rg_mad(one, number[j][e], part[row][j]);
                    }
                }
            }
        int at = word * kNumbers / block;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (column + j >= n) continue;
            float scale = ((float const*)p.scales)[(column + j) * (Index)p.blocks + at], zero = zero_of(p, column + j, at);
#pragma unroll
            for (int row = 0; row < kRows; ++row)
                sum[row][j] = rg_mad(scale, part[row][j] - zero * elements[row], sum[row][j]);
        }
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            for (int other = 16; other > 0; other /= 2) sum[row][j] += __shfl_xor_sync(0xffffffffu, sum[row][j], other);
            if (lane == 0 && column + j < n) finish(p, row, column + j, sum[row][j]);
        }
}
)cuda";

char const* const kTileKernel = R"cuda(
typedef rg_tile<float, 64, 64, 16, 4, 4> Tile;

struct Row {
    A const* row;
    bool inside;
    int k;
    RG_MEMBER void fetch(int slab, float* to) {
        for (int i = 0; i < Tile::a_run; ++i) {
            int at = slab * Tile::depth + Tile::a_first() + i;
            to[i] = inside && at < k ? rg_load(row[at]) : 0.f;
        }
    }
};
struct Column {
    static constexpr bool runs = true;
    rg_block_args const& p;
    int column;
    RG_MEMBER void fetch(int slab, float* to) {
        for (int i = 0; i < Tile::b_run; ++i) {
            int at = slab * Tile::depth + Tile::b_place(true, i);
            to[i] = 0.f;
            if (column >= (int)p.n || at >= (int)p.k) continue;
            int block = kOrdered ? at / (int)p.block : ((int const*)p.order)[at];
            Index bit = (Index)at * kBits;
            unsigned char const* packed = (unsigned char const*)p.q + column * (Index)(p.blocks * p.block * kBits / 8);
            float number = (float)(packed[bit / 8] >> bit % 8 & kMask);
            to[i] = (number - zero_of(p, column, block)) * ((float const*)p.scales)[column * (Index)p.blocks + block];
        }
    }
};

RG_GLOBAL rg_block_product(rg_block_args p) {
    RG_WAIT();
    __shared__ Tile::Shared shared;
    const int first_row = blockIdx.x % (unsigned)p.row_tiles * 64, first_column = blockIdx.x / (unsigned)p.row_tiles * 64;
    Tile tile;
    tile.clear();
    rg_no_plan none;
    int row = first_row + Tile::a_row();
    Row rows{(A const*)p.a + row * (Index)p.k, row < (int)p.m, (int)p.k};
    Column columns{p, first_column + Tile::b_column(true)};
    tile.run(shared, 0, ((int)p.k + Tile::depth - 1) / Tile::depth, none, rows, columns);
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            row = first_row + tile.row(i);
            int column = first_column + tile.column(j);
            if (row < (int)p.m && column < (int)p.n) finish(p, row, column, tile.sum[i][j]);
        }
}
)cuda";

std::string beginning(BlockProductKind const& kind) {
    int zeros = kind.zeros == DataType::F32 ? 1 : kind.zeros == DataType::U8 ? 2 : 0;
    auto constant = [](char const* name, int value) {
        return std::string("constexpr int ") + name + " = " + std::to_string(value) + ";\n";
    };
    bool routed = kind.routes != DataType::Undefined;
    return std::string("typedef ") + element_text(kind.a) + " A;\ntypedef " + (kind.wide ? "rg_i64" : "int") +
           " Index;\ntypedef " + (kind.routes == DataType::I64 ? "rg_i64" : "int") + " Route;\n" +
           constant("kBits", kind.bits) + constant("kRouted", routed) + constant("kZeros", zeros) +
           constant("kRows", kind.rows) + constant("kWords", kind.words) + constant("kOrdered", kind.ordered) +
           constant("kBias", kind.bias) + constant("kVector", kind.vector) + kArguments;
}

}  // namespace

std::string BlockProductKind::key() const { return std::to_string(rows) + (wide ? "w" : "n") + (vector ? "v" : "s"); }

std::string row_block_source(BlockProductKind const& kind) {
    return std::string(kPrelude) + kElementSource + beginning(kind) + kRowKernel;
}

std::string tiled_block_source(BlockProductKind const& kind) {
    return std::string(kPrelude) + kElementSource + kTileSource + beginning(kind) + kTileKernel;
}

}  // namespace refactor::kernel::cuda
