#pragma once
#include "common/data_type.h"
#include "common/small_vector.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refactor::mem_manager {
class Blob;
}

namespace refactor::runtime {

/// What a value is. An optional that holds something is that something: `Optional` is the kind of the empty one.
enum class ValueKind : uint8_t { Tensor, Sequence, Optional, Map };
std::string_view name_of(ValueKind kind);

struct Contents;

/// Something that crosses the border of a program: a dense row-major tensor, a sequence, a map, or nothing. Cheap to
/// copy: what it holds is shared.
struct Value {
    DataType dtype = DataType::Undefined;               ///< of a tensor
    Dims dims = {};                                     ///< of a tensor
    std::shared_ptr<mem_manager::Blob> blob = nullptr;  ///< elements of a tensor, except text
    ValueKind kind = ValueKind::Tensor;
    std::shared_ptr<Contents const> contents = nullptr;  ///< of everything that is not in `blob`

    /// Whether nothing has been assigned yet; an empty optional and an empty sequence are values.
    bool unset() const { return !blob && !contents; }
    int64_t count() const { return element_count(dims); }

    static Value strings(Dims dims, std::vector<std::string> elements);
    static Value sequence(std::vector<Value> elements);
    static Value nothing();
    static Value map(Value keys, Value values);

    /// Makes this a tensor on the CPU of these sizes with undefined content and returns its memory; what it had is
    /// used again if nobody else refers to it and the number of bytes is the same.
    void* resize(DataType type, Dims const& sizes);
    /// Elements of a tensor of numbers.
    template <class T>
    T const* data() const {
        return static_cast<T const*>(raw());
    }

private:
    void const* raw() const;
};

/// The elements of values that are no plain block of memory.
struct Contents {
    std::vector<std::string> strings;  ///< of a tensor of text, row-major
    std::vector<Value> elements;       ///< of a sequence; keys and values (two tensors of one axis) of a map
};

/// The value with its elements, and those of what it holds, in the host's memory. What is there already is not copied.
Value on_host(Value const& value);

/// "f32[1, 3, 224, 224]"
std::string describe(DataType, std::span<int64_t const> dims);
/// "f32[2]", "sequence of 3", "nothing", "map of 4"
std::string describe(Value const& value);

}  // namespace refactor::runtime
