#include "cuda/hidden_rows.h"

#include "cuda/source_text.h"

namespace refactor::kernel::cuda {

namespace {

constexpr int64_t kRowsOfABlock = 8;  // a warp for each

char const* const kBody = R"cuda(
struct rg_hidden_args {
    rg_u64 bias, y;
    rg_i64 rows, heads, queries, keys, words;
    rg_i64 bias_step[4], y_step[4];
};
RG_GLOBAL rg_hidden_rows(rg_hidden_args a) {
    RG_WAIT();
    const int lane = threadIdx.x % 32;
    for (rg_i64 row = blockIdx.x * 8ll + threadIdx.x / 32; row < a.rows; row += gridDim.x * 8ll) {
        const rg_i64 query = row % a.queries, head = row / a.queries % a.heads, batch = row / a.queries / a.heads;
        Element const* bias = (Element const*)a.bias + batch * a.bias_step[0] + head * a.bias_step[1] + query * a.bias_step[2];
        rg_i64 seen = a.keys;
        if (kCausal && a.keys - a.queries + query + 1 < seen) seen = a.keys - a.queries + query + 1;
        bool sees = false;
        for (rg_i64 first = 0; first < seen && !sees; first += 32) {
            const rg_i64 key = first + lane;
            sees = __any_sync(0xffffffffu, key < seen && rg_load(bias[key * a.bias_step[3]]) != rg_f32(0xff800000u));
        }
        if (sees) continue;
        Element* y = (Element*)a.y + a.y_step[0] + batch * a.y_step[1] + head * a.y_step[2] + query * a.y_step[3];
        for (rg_i64 word = lane; word < a.words; word += 32) ((rg_vec<rg_u64, 2>*)y)[word] = {};
    }
}
)cuda";

/// The argument after the addresses.
struct Words {
    int64_t rows, heads, queries, keys, words;
    int64_t bias_step[4], y_step[4];
};

}  // namespace

std::string hidden_rows_source(DataType dtype, bool causal) {
    return std::string(kPrelude) + kElementSource + "typedef " + element_text(dtype) +
           " Element;\nconstexpr bool kCausal = " + (causal ? "true" : "false") + ";\n" + kBody;
}

std::unique_ptr<runtime::Task> HiddenRows::bind(AttentionShape const& s) const {
    auto write = [&] { return hidden_rows_source(dtype_, causal_); };
    constexpr int64_t kElementsOfAWord = 8;
    auto const& m = s.mask_step;
    Words words{s.batch * s.heads * s.queries,
                s.heads,
                s.queries,
                s.keys,
                s.value_depth / kElementsOfAWord,
                {m[0], m[1], m[2], m[3]},
                {s.y.first, s.y.batch, s.y.head, s.y.row}};
    Launch launch{functions_.get("rg_hidden_rows", "", write), blocks_for(words.rows, kRowsOfABlock), 256,
                  all_operands(2), words_of(words)};
    return std::make_unique<LaunchTask>(functions_.library(), std::vector<Launch>{std::move(launch)});
}

}  // namespace refactor::kernel::cuda
