#pragma once
#include "common/data_type.h"
#include "common/result.h"
#include "mem_manager/blob.h"

#include <cstdint>
#include <memory>
#include <string>

namespace refactor::pnnx {

/// Reads the weights of a `.ncnn.bin` file one after the other, in the order of the layers that own them. Everything is
/// f32 when it comes out. Source: the file format of ncnn (docs/developer-guide of Tencent/ncnn).
class NcnnWeights {
    std::shared_ptr<mem_manager::Blob const> bytes_;
    size_t at_ = 0;

public:
    explicit NcnnWeights(std::shared_ptr<mem_manager::Blob const> bytes) : bytes_(std::move(bytes)) {}

    /// The next `count` elements. `tagged`: they begin with 4 bytes that tell f32 from f16; what else the format knows
    /// (int8, tables of 256 values) is an error, as is the end of the file.
    Result<std::shared_ptr<mem_manager::Blob const>, std::string> take(int64_t count, bool tagged);
    /// The next `count` bytes, without a tag; padded to four bytes.
    Result<std::shared_ptr<mem_manager::Blob const>, std::string> take_bytes(int64_t count);
    size_t left() const { return bytes_ ? bytes_->bytes() - at_ : 0; }
};

}  // namespace refactor::pnnx
