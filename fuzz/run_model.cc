#include "run_model.h"

#include "common/error.h"
#include "common/half.h"
#include "frontend/compile.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "runtime/session.h"
#include "target.h"

#include <chrono>
#include <cmath>
#include <cstring>

namespace refactor::fuzz {

using runtime::PortInfo;
using runtime::Value;
using runtime::ValueKind;

namespace {

constexpr int64_t kMaxElements = 1 << 14;
constexpr size_t kMaxTensorBytes = 1 << 22;
constexpr auto kMaxTime = std::chrono::seconds(1);

int64_t size_of(std::vector<int64_t> const& sizes, std::string const& symbol) {
    size_t number = 0;
    for (char c : symbol) number = number * 31 + static_cast<unsigned char>(c);
    return sizes.empty() ? 2 : sizes[number % sizes.size()];
}

Value tensor_of(DataType dtype, Dims const& dims, size_t salt) {
    std::vector<double> values;
    // Of both signs, with zeros and fractions, of a length that few sizes are multiples of.
    for (size_t i = 0; i < 7; ++i) values.push_back(static_cast<double>((i * 5 + salt) % 9) - 3.5 + (i % 2) * 0.5);
    auto count = element_count(dims);
    if (dtype == DataType::String) {
        std::vector<std::string> texts;
        for (int64_t i = 0; i < count; ++i) texts.push_back(std::to_string(values[static_cast<size_t>(i) % 7]));
        return Value::strings(dims, std::move(texts));
    }
    Value value;
    fill(dtype, value.resize(dtype, dims), count, values);
    return value;
}

/// Something of the type of an input; nothing if that would be large.
std::optional<Value> value_of(PortInfo const& port, std::vector<int64_t> const& sizes, size_t salt) {
    if (port.kind == ValueKind::Optional && (salt % 2 || !port.element)) return Value::nothing();
    if (port.kind == ValueKind::Optional) return value_of(*port.element, sizes, salt);
    if (port.kind == ValueKind::Sequence) {
        std::vector<Value> elements;
        for (size_t i = 0; i < 2 && port.element; ++i)
            if (auto element = value_of(*port.element, sizes, salt + i)) elements.push_back(std::move(*element));
        return Value::sequence(std::move(elements));
    }
    if (port.kind == ValueKind::Map) {
        auto values = port.element ? port.element->dtype : DataType::F32;
        return Value::map(tensor_of(port.dtype, {1}, salt), tensor_of(values, {1}, salt));
    }
    Dims dims;
    int64_t count = 1;
    for (size_t i = 0; i < port.dims.size(); ++i) {
        dims.push_back(port.dims[i] >= 0 ? port.dims[i] : size_of(sizes, port.symbols[i]));
        if (dims[i] < 0 || __builtin_mul_overflow(count, dims[i], &count) || count > kMaxElements) return std::nullopt;
    }
    if (!port.ranked) dims = {2, 3};
    return tensor_of(port.dtype, dims, salt);
}

/// Reads every byte, so that the address sanitizer sees what is too short.
uint64_t touch(Value const& value) {
    uint64_t sum = 0;
    if (value.blob) {
        auto bytes = storage_bytes(value.dtype, value.count());
        require(value.blob->bytes() >= bytes, "an output has less memory than elements");
        for (size_t i = 0; i < bytes; ++i) sum += static_cast<unsigned char const*>(value.blob->data())[i];
    }
    if (value.contents) {
        for (auto const& text : value.contents->strings) sum += text.size();
        for (auto const& element : value.contents->elements) sum += touch(element);
    }
    return sum;
}

void check_output(PortInfo const& port, Value const& value) {
    require(!value.unset(), "an output is not set", port.name);
    // Nothing is known before the run of what follows from the content of an input.
    if (port.kind != ValueKind::Tensor || port.dtype == DataType::Undefined) return;
    auto actual = runtime::describe(value);
    require(value.kind == ValueKind::Tensor && value.dtype == port.dtype, "an output has another type", actual);
    if (port.ranked) {
        require(value.dims.size() == port.dims.size(), "an output has another rank", actual);
        for (size_t i = 0; i < port.dims.size(); ++i)
            require(port.dims[i] < 0 || port.dims[i] == value.dims[i], "an output has another size", actual);
    }
    require(touch(value) != UINT64_MAX, "an absurd sum");
}

/// One run; false if the inputs would be too large.
bool run_once(runtime::Session& session, RunSettings const& settings, std::vector<int64_t> const& sizes, size_t salt) {
    auto const& executable = session.executable();
    for (size_t i = 0; i < executable.inputs.size(); ++i) {
        auto const& port = executable.inputs[i];
        std::optional<Value> value;
        for (auto const& [name, given] : settings.values)
            if (name == port.name && !given.unset()) value = given;
        if (!value) value = value_of(port, sizes, salt + i);
        if (!value) return false;
        session.set_input(i, std::move(*value));
    }
    runtime::RunOptions options;
    options.deadline = std::chrono::steady_clock::now() + kMaxTime;
    session.run(options);
    for (size_t i = 0; i < executable.outputs.size(); ++i) check_output(executable.outputs[i], session.output(i));
    return true;
}

}  // namespace

void fill(DataType dtype, void* target, int64_t count, std::vector<double> const& values) {
    auto bytes = storage_bytes(dtype, count);
    if (!bytes) return;
    auto per_element = dtype == DataType::Complex64 || dtype == DataType::Complex128 ? 2 : 1;
    auto plain = dtype == DataType::Complex64 ? DataType::F32 : dtype == DataType::Complex128 ? DataType::F64 : dtype;
    std::vector<double> source(static_cast<size_t>(count * per_element));
    for (size_t i = 0; i < source.size(); ++i) source[i] = values.empty() ? 0 : values[i % values.size()];
    if (plain == DataType::I64) {
        // Through double the ends of the range would be lost.
        for (size_t i = 0; i < source.size(); ++i) {
            bool fits = std::abs(source[i]) < 0x1p63;
            auto value = fits ? static_cast<int64_t>(source[i]) : source[i] > 0 ? INT64_MAX : INT64_MIN;
            std::memcpy(static_cast<char*>(target) + 8 * i, &value, 8);
        }
    } else if (plain == DataType::F64) {
        std::memcpy(target, source.data(), bytes);
    } else if (!convert(DataType::F64, source.data(), plain, target, static_cast<int64_t>(source.size()))) {
        std::memset(target, 0x41, bytes);
    }
}

void Guard::judge() {
    try {
        throw;
    } catch (InternalError const& error) {
        require(false, "internal error", error.what());
    } catch (Error const& error) {
        tell(error.what());
    } catch (std::exception const& error) {
        require(false, "untyped exception", error.what());
    }
}

void compile_and_run(frontend::Model& model, RunSettings const& settings) {
    for (auto const& port : model.outputs()) (void)frontend::to_string(port, model.symbols());
    computation::CompileOptions options;
    options.threads = 1, options.max_tensor_bytes = kMaxTensorBytes, options.verify = true;
    options.passes = settings.passes;
    if (settings.exact) options.precision = kernel::Precision::Exact;
    auto compiled = frontend::compile(model, options);
    for (auto const& program : compiled.programs) (void)program->to_string();
    runtime::Session session(compiled.executable, settings.allocator, 1);
    if (!run_once(session, settings, settings.sizes, 0)) return tell("too large to run");
    // The same again with results in place, then a clone with other sizes, and the first once more.
    run_once(session, settings, settings.sizes, 1);
    auto other = settings.sizes;
    for (auto& size : other) size = std::min<int64_t>(size, kMaxElements) + 1;
    auto clone = session.clone();
    Guard([&] { run_once(*clone, settings, other, 2); });
    run_once(session, settings, settings.sizes, 3);
    tell("ran");
}

}  // namespace refactor::fuzz
