#include "frontend/recorded.h"

#include "common/error.h"
#include "mem_manager/blob.h"

#include <array>
#include <cstring>

namespace refactor::frontend {

namespace {

using computation::GraphReader;
using computation::GraphWriter;
using runtime::Value;
using runtime::ValueKind;

[[noreturn]] void fail(char const* what) { throw InvalidModel(std::string("not what was written: ") + what); }

void write_value(GraphWriter& writer, Value const& value) {
    auto host = runtime::on_host(value);
    writer.write(host.kind), writer.write(host.dtype), writer.write(host.dims);
    std::vector<std::byte> bytes(host.blob ? host.blob->bytes() : 0);
    if (!bytes.empty()) std::memcpy(bytes.data(), std::as_const(*host.blob).data(), bytes.size());
    writer.write(host.blob != nullptr), writer.write(bytes);
    writer.write(host.contents != nullptr);
    if (!host.contents) return;
    writer.write(host.contents->strings);
    writer.write(static_cast<uint32_t>(host.contents->elements.size()));
    for (auto const& element : host.contents->elements) write_value(writer, element);
}

void check_tensor(Value const& value) {
    int64_t count = 1;
    for (auto size : value.dims)
        if (size < 0 || __builtin_mul_overflow(count, size, &count)) fail("a value of impossible sizes");
    if (value.blob) {
        if (bits_of(value.dtype) == 0 || storage_bytes(value.dtype, count) > value.blob->bytes())
            fail("a value of another size than its elements");
    } else if (value.kind == ValueKind::Tensor && (!value.contents || value.dtype != DataType::String ||
                                                   static_cast<size_t>(count) != value.contents->strings.size())) {
        fail("a value without its elements");
    }
}

Value read_value(GraphReader& reader) {
    GraphReader::Nested nested(reader);
    Value value;
    value.kind = reader.read<ValueKind>(), value.dtype = reader.read<DataType>(), value.dims = reader.read<Dims>();
    if (value.kind > ValueKind::Map) fail("a value of an unknown kind");
    bool has_bytes = reader.read<bool>();
    auto bytes = reader.read<std::vector<std::byte>>();
    if (has_bytes) value.blob = mem_manager::Blob::copy_of(bytes.data(), bytes.size());
    if (reader.read<bool>()) {
        auto contents = std::make_shared<runtime::Contents>();
        contents->strings = reader.read<std::vector<std::string>>();
        for (auto count = reader.read<uint32_t>(); count > 0; --count) contents->elements.push_back(read_value(reader));
        value.contents = std::move(contents);
    }
    check_tensor(value);
    return value;
}

using Make = ProcedurePtr (*)(ArgumentReader const&);

template <auto kMake, class... Parameters>
ProcedurePtr make_again(ArgumentReader const& arguments, ProcedurePtr (*)(Parameters...)) {
    // Braces: arguments are read from the left to the right.
    std::tuple<std::decay_t<Parameters>...> read{arguments.read<std::decay_t<Parameters>>()...};
    return std::apply([](auto&... each) { return record<kMake>(std::move(each)...); }, read);
}

template <auto... kMakes>
constexpr auto table_of(detail::Makers<kMakes...>) {
    return std::array<Make, sizeof...(kMakes)>{
        [](ArgumentReader const& arguments) { return make_again<kMakes>(arguments, kMakes); }...};
}

}  // namespace

void ArgumentWriter::operator()(Value const& value) const { write_value(writer_, value); }

Value ArgumentReader::value() const { return read_value(reader_); }

ProcedurePtr read_procedure(GraphReader& reader, ArgumentReader const& arguments) {
    constexpr auto kTable = table_of(detail::AllMakers());
    auto number = reader.read<uint32_t>();
    if (number >= kTable.size()) fail("an unknown procedure");
    return kTable[number](arguments);
}

}  // namespace refactor::frontend
