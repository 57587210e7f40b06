#pragma once
#include "runtime/procedure.h"

/// Operators that take or make maps.
namespace refactor::kernel {

/// Values of a map with i64 keys, f32 or text, as a tensor [1, n] of type `to` (f32, i64, text) in the order of their
/// keys. `size` ≥ 0: [1, size], every value at its key (negative ones throw `InvalidInput`, those beyond are left out),
/// what is missing is 0 ("0.f" as text). Text that is no number throws `InvalidInput`. Source: ONNX-ML CastMap-1,
/// onnxruntime.
struct CastMapInfo {
    DataType to = DataType::F32;
    int64_t size = -1;
};
std::shared_ptr<runtime::Procedure const> make_cast_map(CastMapInfo info);

/// Values of a map [1, words] in the order of a vocabulary, which has words or numbers; 0 (or no text) where the map
/// has no such key, other keys are left out. Source: ONNX-ML DictVectorizer-1, onnxruntime.
struct VocabularyInfo {
    std::vector<std::string> texts;
    std::vector<int64_t> numbers;
};
std::shared_ptr<runtime::Procedure const> make_dict_vectorizer(VocabularyInfo info);

/// A sequence with one map for each row of x [N, C] or [C], f32, whose keys are `keys` [C]. Source: ONNX-ML ZipMap-1.
std::shared_ptr<runtime::Procedure const> make_zip_map(runtime::Value keys);

}  // namespace refactor::kernel
