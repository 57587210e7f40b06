#include "ncnn/weights.h"

#include "common/half.h"
#include "mem_manager/device.h"
#include "zip_archive.h"

#include <cstring>

namespace refactor::pnnx {

using mem_manager::Blob;

namespace {

constexpr uint32_t kRaw = 0, kHalf = 0x01306B47, kBytes = 0x000D4B38;

}  // namespace

Result<std::shared_ptr<Blob const>, std::string> NcnnWeights::take(int64_t count, bool tagged) {
    if (!bytes_) return Err{std::string("there is no bin file")};
    auto* data = static_cast<unsigned char const*>(bytes_->data());
    uint32_t tag = kRaw;
    if (tagged) {
        if (left() < sizeof tag) return Err{std::string("the bin file ends before them")};
        std::memcpy(&tag, data + at_, sizeof tag);
        at_ += sizeof tag;
    }
    if (tag == kBytes) return Err{std::string("they are int8, which is not supported")};
    if (tag != kRaw && tag != kHalf) return Err{std::string("they are stored as a table, which is not supported")};
    auto dtype = tag == kHalf ? DataType::F16 : DataType::F32;
    auto size = count < 0 || count > (int64_t{1} << 40) ? SIZE_MAX : storage_bytes(dtype, count);
    if (left() < size) return Err{std::string("the bin file ends before them")};
    auto begin = at_;
    // Half floats are padded to four bytes.
    at_ += std::min(left(), (size + 3) / 4 * 4);
    if (tag == kRaw) return part_of(bytes_, begin, size, sizeof(float));
    auto wide = Blob::make(mem_manager::cpu_device(), storage_bytes(DataType::F32, count));
    auto half = part_of(bytes_, begin, size, sizeof(uint16_t));
    if (count) convert(DataType::F16, half->data(), DataType::F32, wide->data(), count);
    return std::shared_ptr<Blob const>(std::move(wide));
}

Result<std::shared_ptr<Blob const>, std::string> NcnnWeights::take_bytes(int64_t count) {
    if (!bytes_) return Err{std::string("there is no bin file")};
    auto size = static_cast<size_t>(count);
    if (count < 0 || left() < size) return Err{std::string("the bin file ends before them")};
    auto begin = at_;
    at_ += std::min(left(), (size + 3) / 4 * 4);
    return part_of(bytes_, begin, size, 1);
}

}  // namespace refactor::pnnx
