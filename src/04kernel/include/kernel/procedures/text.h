#pragma once
#include "common/half.h"
#include "runtime/procedure.h"

#include <memory>
#include <string>
#include <vector>

/// Procedures on tensors of text. Text is UTF-8; bytes that are no UTF-8 stay as they are.
namespace refactor::kernel {

using ProcedurePtr = std::shared_ptr<runtime::Procedure const>;

/// Two tensors of text, broadcast as numpy does, to bool: whether the bytes are equal. Source: ONNX Equal-19.
ProcedurePtr make_text_equal();
/// Two tensors of text, broadcast, to text: one behind the other. Source: ONNX StringConcat-20.
ProcedurePtr make_text_concat();

/// x: [...] to the parts: [..., most parts of any element] (text, filled up with empty ones) and their number: [...]
/// (i64). Source: ONNX StringSplit-20.
struct TextSplitInfo {
    std::string delimiter;  ///< empty: runs of white space, and none at either end (as Python's `str.split()`)
    int64_t most = -1;      ///< splits at most; negative: no limit
};
ProcedurePtr make_text_split(TextSplitInfo info);

/// x: [C] or [1, C] to the same without stop words, in another case: [c] or [1, c]; one empty text if none is left.
/// Letters change by the one-to-one mappings of Unicode 14, the same in every locale; those that would become several
/// letters (`ß` in upper case) stay. Source: ONNX StringNormalizer-10.
struct TextNormalizerInfo {
    enum class Case { None, Lower, Upper } change = Case::None;
    bool case_sensitive = false;  ///< how stop words are found
    std::vector<std::string> stop_words;
};
ProcedurePtr make_text_normalizer(TextNormalizerInfo info);

/// Between text and any type but complex ones, elementwise. Source: ONNX Cast-25.
///
/// To text: integers in decimal, `True`, `False`; floats with the fewest digits that tell them from their neighbours in
/// their own type, `nan`, `inf`, `-inf`; from 1e-4 up to 1e16 without an exponent (`0.5`, `3.0`), others as `1e-05`, as
/// Python writes them. From text: white space around is ignored; decimal numbers with or without exponent, `inf`,
/// `infinity`, `nan`, `true`, `false` in any case; to integers fractions are cut off. Any other text, and a number that
/// an integer type does not hold, throws `InvalidInput`.
struct TextCastInfo {
    DataType from, to;  ///< one of them is String
    bool saturate = true;
    ScaleRounding rounding = ScaleRounding::Up;
};
ProcedurePtr make_text_cast(TextCastInfo info);

}  // namespace refactor::kernel
