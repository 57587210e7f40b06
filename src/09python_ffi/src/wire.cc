#include "wire.h"

#include "common/error.h"

#include <bit>
#include <cstring>

namespace refactor::python {

namespace {

enum class WireType : uint8_t { Varint = 0, Eight = 1, Bytes = 2, Four = 5 };

class Reader {
    unsigned char const *at_, *end_;

public:
    explicit Reader(std::string_view bytes)
        : at_(reinterpret_cast<unsigned char const*>(bytes.data())), end_(at_ + bytes.size()) {}
    bool done() const { return at_ == end_; }
    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (at_ == end_) break;
            auto byte = *at_++;
            value |= static_cast<uint64_t>(byte & 127) << shift;
            if (byte < 128) return value;
        }
        throw InvalidInput("a protobuf message is cut off or malformed");
    }
    std::string_view take(uint64_t bytes) {
        if (bytes > static_cast<uint64_t>(end_ - at_)) throw InvalidInput("a protobuf message is cut off");
        auto const* from = reinterpret_cast<char const*>(at_);
        at_ += bytes;
        return {from, static_cast<size_t>(bytes)};
    }
    std::string_view bytes() { return take(varint()); }
    float real() {
        static_assert(std::endian::native == std::endian::little);
        float value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
};

/// Calls `read` with a reader at each element of the field; elements of the type `element` may be packed.
template <class Read>
void each(std::string_view message, uint32_t field, WireType element, Read&& read) {
    for (Reader reader(message); !reader.done();) {
        auto tag = reader.varint();
        auto type = static_cast<WireType>(tag & 7);
        if (tag >> 3 == field && type == element) {
            read(reader);
        } else if (tag >> 3 == field && type == WireType::Bytes) {
            for (Reader packed(reader.bytes()); !packed.done();) read(packed);
        } else if (type == WireType::Varint) {
            reader.varint();
        } else if (type == WireType::Bytes) {
            reader.bytes();
        } else if (type == WireType::Eight || type == WireType::Four) {
            reader.take(type == WireType::Eight ? 8 : 4);
        } else {
            throw InvalidInput("a protobuf message has a field of the type " + std::to_string(tag & 7));
        }
    }
}

}  // namespace

std::vector<int64_t> repeated_integers(std::string_view message, uint32_t field) {
    std::vector<int64_t> values;
    each(message, field, WireType::Varint, [&](Reader& r) { values.push_back(static_cast<int64_t>(r.varint())); });
    return values;
}

std::vector<float> repeated_floats(std::string_view message, uint32_t field) {
    std::vector<float> values;
    each(message, field, WireType::Four, [&](Reader& r) { values.push_back(r.real()); });
    return values;
}

std::vector<std::string> repeated_strings(std::string_view message, uint32_t field) {
    std::vector<std::string> values;
    each(message, field, WireType::Bytes, [&](Reader& r) { values.emplace_back(r.bytes()); });
    return values;
}

}  // namespace refactor::python
