#include "frontend/recorded.h"
#include "frontend/shape_rules.h"
#include "operator_def.h"

#include <algorithm>

// TfIdfVectorizer.

namespace refactor::onnx {

namespace {

using frontend::ProcedureContext;
using frontend::ProcedurePtr;
using kernel::TfIdfInfo;

constexpr int64_t kLongestGram = 1 << 20, kMostOutputs = 1 << 30;

Inferred<TfIdfInfo::Mode> mode_of(NodeView const& n) {
    auto mode = n.text("mode", "");
    if (mode == "TF") return TfIdfInfo::Mode::Tf;
    if (mode == "IDF") return TfIdfInfo::Mode::Idf;
    if (mode == "TFIDF") return TfIdfInfo::Mode::TfIdf;
    return Err{invalid("mode is \"", mode, "\", expected \"TF\", \"IDF\" or \"TFIDF\"")};
}

Status check_lengths(TfIdfInfo const& info) {
    if (info.shortest < 1 || info.shortest > info.longest || info.longest > kLongestGram)
        return invalid("min_gram_length is ", info.shortest, " and max_gram_length ", info.longest,
                       ", expected 1 <= min <= max <= ", kLongestGram);
    if (info.most_skipped < 0 || info.most_skipped == INT64_MAX)
        return invalid("max_skip_count is ", info.most_skipped, ", expected at least 0");
    return std::nullopt;
}

/// Number of n-grams in the pool.
Inferred<int64_t> grams_of(TfIdfInfo const& info, int64_t pool) {
    int64_t grams = 0, begin = 0;
    if (info.counts.empty() || info.counts[0] != 0) return Err{invalid("ngram_counts does not begin with 0")};
    for (size_t i = 0; i < info.counts.size(); ++i) {
        auto end = i + 1 < info.counts.size() ? info.counts[i + 1] : pool, size = static_cast<int64_t>(i) + 1;
        if (end < begin || end > pool)
            return Err{invalid("ngram_counts holds ", end, " behind ", begin, ", expected ", begin, " to ", pool,
                               ", the size of the pool")};
        if ((end - begin) % size)
            return Err{invalid("the pool has ", end - begin, " items for ", size, "-grams, no multiple of ", size)};
        grams += (end - begin) / size, begin = end;
    }
    return grams;
}

Inferred<TfIdfInfo> info_of(NodeView const& n) {
    TfIdfInfo info;
    RG_TRY(mode, mode_of(n));
    info.mode = mode;
    info.shortest = n.integer("min_gram_length", 1), info.longest = n.integer("max_gram_length", 1);
    info.most_skipped = n.integer("max_skip_count", 0);
    if (auto failure = check_lengths(info)) return Err{*failure};
    info.counts = n.integers("ngram_counts"), info.indexes = n.integers("ngram_indexes");
    info.numbers = n.integers("pool_int64s");
    if (auto* pool = n.get<std::vector<std::string>>("pool_strings")) info.texts = *pool;
    if (auto* weights = n.get<std::vector<float>>("weights")) info.weights = *weights;
    if (info.numbers.empty() == info.texts.empty())
        return Err{invalid("expected one of pool_int64s and pool_strings, got ", info.texts.empty() ? "none" : "both")};
    auto pool = static_cast<int64_t>(info.is_text() ? info.texts.size() : info.numbers.size());
    RG_TRY(grams, grams_of(info, pool));
    if (static_cast<int64_t>(info.indexes.size()) != grams)
        return Err{invalid("ngram_indexes has ", info.indexes.size(), " elements, expected ", grams,
                           ", the number of n-grams in the pool")};
    for (auto index : info.indexes)
        if (index < 0 || index >= kMostOutputs)
            return Err{invalid("ngram_indexes holds ", index, ", expected 0 to ", kMostOutputs - 1)};
    if (!info.weights.empty() && info.weights.size() != info.indexes.size())
        return Err{invalid("weights has ", info.weights.size(), " elements, expected ", info.indexes.size(),
                           ", one for each n-gram")};
    return info;
}

Status infer_tfidf(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, info_of(n));
    if (info.is_text() != (c.dtype(0) == DataType::String))
        return invalid("the input is ", name_of(c.dtype(0)), ", the pool ",
                       info.is_text() ? "pool_strings" : "pool_int64s");
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 1, 2));
    auto shape = c.shape(0);
    shape.back() = info.outputs();
    return c.set(0, DataType::F32, std::move(shape));
}

Inferred<ProcedurePtr> tfidf_procedure(ProcedureContext const&, NodeView const& n) {
    RG_TRY(info, info_of(n));
    return frontend::record<kernel::make_tfidf>(std::move(info));
}

}  // namespace

void define_text_tfidf(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "TfIdfVectorizer",
                   .since = 9,
                   .types = {{kIndices | types(DataType::String)}},
                   .attributes = {{"max_gram_length", K::Int, true},
                                  {"max_skip_count", K::Int, true},
                                  {"min_gram_length", K::Int, true},
                                  {"mode", K::String, true},
                                  {"ngram_counts", K::Ints, true},
                                  {"ngram_indexes", K::Ints, true},
                                  {"pool_int64s", K::Ints},
                                  {"pool_strings", K::Strings},
                                  {"weights", K::Floats}},
                   .infer = infer_tfidf,
                   .procedure = tfidf_procedure});
}

}  // namespace refactor::onnx
