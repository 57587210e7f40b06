#include "common/error.h"
#include "cuda/device_selects.h"
#include "movement/movement.h"
#include "sequence/parts.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

using runtime::Value;

/// Positions of what is true. All are written, and the last again until it is one of them: branches on random
/// conditions are mispredicted.
std::vector<int64_t> chosen(Value const& condition) {
    std::vector<int64_t> kept(static_cast<size_t>(condition.count()));
    size_t count = 0;
    for (int64_t i = 0; i < condition.count(); ++i) kept[count] = i, count += condition.data<uint8_t>()[i] != 0;
    kept.resize(count);
    return kept;
}

class Compress final : public runtime::Procedure {
    std::optional<int64_t> axis_;

public:
    explicit Compress(std::optional<int64_t> axis) : axis_(axis) {}
    std::string id() const override { return "compress:cpu:copy:any"; }
    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        auto const &x = *inputs[0], &condition = *inputs[1];
        auto dims = axis_ ? x.dims : Dims{x.count()};
        auto axis = axis_ ? axis_of(*axis_, dims.size()) : 0;
        auto [outer, size, inner] = Around(dims, axis);
        auto kept = chosen(condition);
        if (!kept.empty() && kept.back() >= size)
            throw InvalidInput("the condition asks for element " + std::to_string(kept.back()) + ", x has " +
                               std::to_string(size));
        dims[axis] = static_cast<int64_t>(kept.size());
        auto each = [&](auto const& copy) {
            int64_t to = 0;
            for (int64_t o = 0; o < outer; ++o)
                for (auto i : kept) copy((o * size + i) * inner, to), to += inner;
        };
        if (x.dtype == DataType::String) {
            std::vector<std::string> texts(static_cast<size_t>(element_count(dims)));
            each([&](int64_t from, int64_t to) {
                std::copy_n(x.contents->strings.begin() + from, inner, texts.begin() + to);
            });
            outputs[0] = Value::strings(std::move(dims), std::move(texts));
            return;
        }
        auto bytes = bits_of(x.dtype) / 8;
        if (!bytes) throw Unsupported("Compress of " + std::string(name_of(x.dtype)));
        auto* target = static_cast<std::byte*>(outputs[0].resize(x.dtype, dims));
        auto const* source = x.data<std::byte>();
        if (!movement::is_word(inner * bytes)) {
            each([&](int64_t from, int64_t to) {
                std::copy_n(source + from * bytes, inner * bytes, target + to * bytes);
            });
            return;
        }
        movement::with_word(inner * bytes, [&](auto word) {
            each([&](int64_t from, int64_t to) {
                movement::store(target + to * bytes, movement::load<decltype(word)>(source + from * bytes));
            });
        });
    }
};

}  // namespace

ProcedurePtr make_compress(DataType x, std::optional<int64_t> axis, mem_manager::Device* place) {
    auto there = place ? cuda::compress_nvrtc(*place, x, axis) : nullptr;
    return there ? there : std::make_shared<Compress>(axis);
}

}  // namespace refactor::kernel
