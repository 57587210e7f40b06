#pragma once
#include "kernel/procedures/text.h"

namespace refactor::kernel {

/// Counts of n-grams, items of which may be apart by up to `most_skipped` others: x: [C] or [N, C] (text, i32 or i64)
/// to f32 [outputs] or [N, outputs]. Source: ONNX TfIdfVectorizer-9.
///
/// Weights belong to n-grams, as the standard and onnxruntime have it (`onnx.reference` 1.23 takes them by output,
/// which differs where `indexes` is not ascending). In the mode Idf an n-gram counts once.
struct TfIdfInfo {
    enum class Mode { Tf, Idf, TfIdf } mode = Mode::Tf;
    int64_t shortest = 1, longest = 1, most_skipped = 0;
    std::vector<int64_t> counts;   ///< where the 1-grams, 2-grams … begin in the pool; ascending, within it
    std::vector<int64_t> indexes;  ///< output of each n-gram of the pool; not negative
    std::vector<int64_t> numbers;  ///< the pool: n-grams one behind the other
    std::vector<std::string> texts;
    std::vector<float> weights;  ///< by n-gram; none: 1

    bool is_text() const { return !texts.empty(); }
    int64_t outputs() const;
};
ProcedurePtr make_tfidf(TfIdfInfo info);

}  // namespace refactor::kernel
