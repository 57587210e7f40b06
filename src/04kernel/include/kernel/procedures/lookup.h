#pragma once
#include "runtime/procedure.h"

namespace refactor::kernel {

/// What elements are searched for; where one occurs twice the first counts.
struct LookupKeys {
    std::vector<std::string> texts;
    std::vector<uint64_t> codes;  ///< of numbers (`lookup_code`), if the elements are numbers
};

/// Maps every element of a tensor, of which keys or values are text, to the value whose key it is. Source: ONNX-ML
/// LabelEncoder-4, CategoryMapper-1.
struct TextLookupInfo {
    LookupKeys keys;
    runtime::Value values;    ///< as many elements as keys
    runtime::Value fallback;  ///< one element, for everything else
};
std::shared_ptr<runtime::Procedure const> make_text_lookup(TextLookupInfo info);

/// Adds an axis with a 1 (f32) at the number of the category. `strict`: an element that is no category throws
/// `InvalidInput`, else its row is 0. Numbers are truncated to i64. Source: ONNX-ML OneHotEncoder-1.
struct CategoryInfo {
    LookupKeys categories;
    bool strict = false;
};
std::shared_ptr<runtime::Procedure const> make_one_hot_categories(CategoryInfo info);

}  // namespace refactor::kernel
