#include "common/error.h"
#include "frontend/custom_library.h"
#include "library_host.h"
#include "runtime/operator_error.h"

#include <algorithm>
#include <cstring>

#include <dlfcn.h>

namespace refactor::frontend {

namespace {

using runtime::OperatorError;
using runtime::Value;

class LibraryProcedure final : public runtime::Procedure {
    RefactorKernel kernel_;
    Attributes attributes_;
    ResultCheck check_;
    std::string id_;

    std::vector<RefactorTensor> make_results(RefactorContext& context, std::span<Value const* const> inputs) const {
        auto expected = check_.expected_dims(inputs);
        std::vector<RefactorTensor> tensors;
        for (uint32_t i = 0; i < context.outputs; ++i) {
            auto const& dims = expected[i];
            bool known = dims && std::find(dims->begin(), dims->end(), -1) == dims->end();
            auto dtype = check_.dtype(i);
            tensors.push_back({static_cast<int32_t>(dtype), dims ? static_cast<int32_t>(dims->size()) : 0,
                               dims ? context.dims.emplace_back(*dims).data() : nullptr, nullptr});
            if (known)
                tensors[i].data =
                    library_host().allocate(&context, i, static_cast<uint32_t>(dims->size()), dims->data());
        }
        return tensors;
    }

public:
    LibraryProcedure(RefactorKernel kernel, Attributes attributes, ProcedureContext const& context,
                     std::string_view name)
        : kernel_(kernel),
          attributes_(std::move(attributes)),
          check_(context),
          id_(concat("custom:cpu:library:", name)) {}
    std::string id() const override { return id_; }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& call) const override {
        RefactorContext context{&attributes_, inputs.size(), outputs.size()};
        context.call = &call, context.results = outputs, context.check = &check_;
        context.strings.resize(outputs.size());
        std::vector<RefactorTensor> operands;
        for (auto* input : inputs) operands.push_back(input ? context.view(*input) : RefactorTensor{});
        // What the last run left is memory to use again, but no result.
        for (auto& output : outputs) output.dtype = DataType::Undefined;
        auto results = make_results(context, inputs);
        auto code = context.error ? 0 : kernel_.run(&library_host(), &context, operands.data(), results.data());
        if (code != 0 || context.error)
            throw OperatorError(context.error.value_or(concat("its kernel returned the code ", code)));
        for (size_t i = 0; i < outputs.size(); ++i) {
            if (outputs[i].dtype == DataType::Undefined)
                throw OperatorError(
                    concat("its kernel has not allocated output ", i, ", announced as ", check_.expected(i)));
            if (outputs[i].dtype == DataType::String)
                outputs[i] = Value::strings(outputs[i].dims, std::move(context.strings[i]));
        }
        check_.check(inputs, outputs);
    }
};

std::string range_text(uint32_t least, uint32_t most) {
    return least == most ? std::to_string(least) : concat(least, " to ", most);
}

class LibraryOperator final : public CustomOperator {
    RefactorOperator definition_;

    Status check_counts(InferContext const& c) const {
        auto check = [](size_t count, uint32_t least, uint32_t most, std::string_view what) -> Status {
            if (count >= least && count <= most) return std::nullopt;
            return invalid(count, " ", what, ", expected ", range_text(least, most));
        };
        RG_CHECK_STATUS(check(c.input_count(), definition_.least_inputs, definition_.most_inputs, "inputs"));
        RG_CHECK_STATUS(check(c.output_count(), definition_.least_outputs, definition_.most_outputs, "outputs"));
        for (size_t i = 0; i < c.input_count(); ++i)
            if (c.has(i) && !c.input(i).is_tensor())
                return invalid("input ", i, " is a ", runtime::name_of(c.input(i).kind), ", expected a tensor");
        return std::nullopt;
    }

public:
    explicit LibraryOperator(RefactorOperator const& definition) : definition_(definition) {
        domain = definition.domain, name = definition.name;
        first = definition.first;
        if (definition.last) last = definition.last;
    }

    Status infer(InferContext& c, Attributes const& attributes) const override {
        RG_CHECK_STATUS(check_counts(c));
        RefactorContext context{&attributes, c.input_count(), c.output_count()};
        context.infer = &c;
        context.announced.resize(c.output_count());
        auto code = definition_.infer(&library_host(), &context);
        if (code != 0 || context.error)
            return invalid(context.error.value_or(concat("its shape function returned the code ", code)));
        return set_announced(c, context.announced);
    }

    Inferred<ProcedurePtr> procedure(ProcedureContext const& context, Attributes const& attributes) const override {
        std::string devices;
        for (uint32_t i = 0; i < definition_.kernel_count; ++i) {
            auto const& kernel = definition_.kernels[i];
            if (std::strcmp(kernel.device, "cpu") == 0)
                return ProcedurePtr(std::make_shared<LibraryProcedure>(kernel, attributes, context, name));
            devices += concat(devices.empty() ? "" : ", ", kernel.device);
        }
        return Err{unsupported("its library has no kernel for the cpu, only for: ", devices)};
    }
};

/// Checks what can be checked, and takes as much as the library knows of.
RefactorOperator checked(RefactorOperator const* source, std::string const& path, uint32_t i) {
    auto refuse = [&](std::string_view what) {
        throw InvalidInput(concat("library \"", path, "\", operator ", i, ": ", what));
    };
    // Up to `kernel_count`, what the first version of the interface had.
    constexpr auto kLeast = offsetof(RefactorOperator, kernel_count) + sizeof(uint32_t);
    if (!source) refuse("it is null");
    if (source->bytes < kLeast) refuse(concat("it has ", source->bytes, " bytes, expected at least ", kLeast));
    RefactorOperator result{};
    std::memcpy(&result, source, std::min<size_t>(source->bytes, sizeof result));
    if (!result.domain || !result.name || !*result.name) refuse("it has no domain or no name");
    if (!result.infer) refuse("it has no function infer");
    if (result.first < 1 || (result.last && result.last < result.first))
        refuse(concat("versions ", result.first, " to ", result.last, " make no range"));
    for (uint32_t k = 0; k < result.kernel_count; ++k)
        if (!result.kernels[k].device || !result.kernels[k].run) refuse("a kernel has no device or no function");
    if (!result.kernel_count) refuse("it has no kernel");
    return result;
}

}  // namespace

CustomOperators load_custom_library(std::string const& path) {
    auto* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw InvalidInput(concat("library \"", path, "\" cannot be loaded: ", dlerror()));
    using Entry = RefactorLibrary const* (*)();
    auto entry = reinterpret_cast<Entry>(dlsym(library, "refactor_custom_operators"));
    if (!entry) throw InvalidInput(concat("library \"", path, "\" does not export refactor_custom_operators"));
    auto const* table = entry();
    if (!table || table->abi != REFACTOR_CUSTOM_ABI)
        throw InvalidInput(concat("library \"", path, "\" has version ", table ? table->abi : 0,
                                  " of the interface, expected ", REFACTOR_CUSTOM_ABI));
    CustomOperators all;
    for (uint32_t i = 0; i < table->count; ++i)
        all.push_back(std::make_shared<LibraryOperator>(checked(table->operators[i], path, i)));
    return all;
}

}  // namespace refactor::frontend
