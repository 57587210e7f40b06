#pragma once
#include "common/data_type.h"
#include "common/small_vector.h"

#include <memory>
#include <string>

namespace refactor::mem_manager {
class Blob;
}

namespace refactor::runtime {

/// A dense row-major tensor that crosses the border of an executor.
struct Value {
    DataType dtype = DataType::Undefined;
    Dims dims;
    std::shared_ptr<mem_manager::Blob> blob;  ///< null: no value yet
};

/// "f32[1,3,224,224]"
std::string describe(DataType, std::span<int64_t const> dims);

}  // namespace refactor::runtime
