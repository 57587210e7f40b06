#include "library_host.h"

#include "common/thread_pool.h"
#include "lowering.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <exception>

using refactor::DataType;
using refactor::Dims;
using refactor::runtime::Value;

RefactorTensor RefactorContext::view(Value const& value) {
    auto const& own = dims.emplace_back(value.dims);
    void* data = value.blob ? value.blob->data() : nullptr;
    if (value.dtype == DataType::String && value.contents) {
        auto& list = texts.emplace_back();
        for (auto const& text : value.contents->strings) list.push_back({text.data(), text.size()});
        data = list.data();
    }
    return {static_cast<int32_t>(value.dtype), static_cast<int32_t>(own.size()), own.data(), data};
}

namespace refactor::frontend {

namespace {

int32_t fail(RefactorContext* context, char const* message) {
    context->error = message ? message : "no reason given";
    return 1;
}

template <class T>
T const* attribute(RefactorContext* context, char const* name) {
    auto* found = find(*context->attributes, name);
    return found ? std::get_if<T>(found) : nullptr;
}

template <class T>
int32_t scalar(RefactorContext* context, char const* name, T* value) {
    auto* found = attribute<T>(context, name);
    if (found) *value = *found;
    return found != nullptr;
}

template <class T>
int32_t list(RefactorContext* context, char const* name, T const** values, size_t* count) {
    auto* found = attribute<std::vector<T>>(context, name);
    if (found) *values = found->data(), *count = found->size();
    return found != nullptr;
}

int32_t text(RefactorContext* context, char const* name, RefactorText* value) {
    auto* found = attribute<std::string>(context, name);
    if (found) *value = {found->data(), found->size()};
    return found != nullptr;
}

/// Null outside of `infer`, and for inputs that are omitted.
Tensor const* input(RefactorContext* context, uint32_t i) {
    return context->infer && context->infer->has(i) ? &context->infer->input(i) : nullptr;
}

int32_t input_type(RefactorContext* context, uint32_t i) {
    auto* tensor = input(context, i);
    return tensor ? static_cast<int32_t>(tensor->dtype) : 0;
}

int32_t input_rank(RefactorContext* context, uint32_t i) {
    auto* tensor = input(context, i);
    return tensor ? static_cast<int32_t>(tensor->rank()) : 0;
}

char const* input_size(RefactorContext* context, uint32_t i, uint32_t axis) {
    auto* tensor = input(context, i);
    if (!tensor || axis >= tensor->rank()) return nullptr;
    return context->sizes.emplace_back(context->infer->text((*tensor->shape)[axis])).c_str();
}

int32_t input_value(RefactorContext* context, uint32_t i, RefactorTensor* value) {
    auto* tensor = input(context, i);
    if (!tensor || (!tensor->constant && !tensor->literal)) return 0;
    // A literal lives in the tensor; the blob of a constant too.
    *value = context->view(tensor->literal ? *tensor->literal : value_of(*tensor));
    return 1;
}

int32_t set_output(RefactorContext* context, uint32_t output, int32_t type, uint32_t rank, char const* const* sizes) {
    if (!context->infer || output >= context->outputs) return fail(context, "set_output: there is no such output");
    auto dtype = data_type_from_onnx(type);
    if (!dtype) return fail(context, concat("set_output: the type ", type, " does not exist").c_str());
    if (rank > InferContext::kMaxRank) return fail(context, "set_output: there are too many axes");
    auto& announced = context->announced[output];
    announced.dtype = *dtype, announced.sizes.emplace();
    for (uint32_t axis = 0; axis < rank; ++axis)
        announced.sizes->push_back(sizes[axis] ? std::optional<std::string>(sizes[axis]) : std::nullopt);
    return 0;
}

void* allocate(RefactorContext* context, uint32_t output, uint32_t rank, int64_t const* dims) {
    auto refuse = [&](char const* message) -> void* {
        fail(context, message);
        return nullptr;
    };
    if (!context->call || output >= context->outputs) return refuse("allocate: there is no such output");
    if (rank > InferContext::kMaxRank) return refuse("allocate: there are too many axes");
    Dims sizes(dims, dims + rank);
    int64_t count = 1;
    for (auto size : sizes)
        if (size < 0 || __builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) ||
            count > InferContext::kMaxBytes)
            return refuse("allocate: a size is negative or absurd");
    auto dtype = context->check->dtype(output);
    auto& result = context->results[output];
    try {
        // Not null for no elements either.
        static char no_element;
        if (dtype != DataType::String) {
            auto* data = result.resize(dtype, sizes);
            return data ? data : &no_element;
        }
        context->strings[output].assign(static_cast<size_t>(element_count(sizes)), {});
        result = {.dtype = dtype, .dims = sizes};
        return &result;
    } catch (std::exception const& error) {
        return refuse(error.what());
    }
}

int32_t set_text(RefactorContext* context, uint32_t output, int64_t element, char const* data, size_t size) {
    if (!context->call || output >= context->outputs || element < 0 ||
        static_cast<size_t>(element) >= context->strings[output].size())
        return 1;
    try {
        context->strings[output][static_cast<size_t>(element)].assign(data, size);
    } catch (std::exception const&) {
        return 1;
    }
    return 0;
}

void parallel_for(RefactorContext* context, int64_t count, int64_t grain,
                  void (*body)(void* user, int64_t begin, int64_t end), void* user) {
    if (count <= 0 || !context->call) return;
    auto& pool = *context->call->pool;
    auto most = std::max<int64_t>(1, count / std::max<int64_t>(grain, 1));
    auto parts = std::min<int64_t>(most, int64_t{4} * pool.threads());
    pool.parallel_for(parts, [&](int64_t i, int) {
        // Without the product of two large numbers.
        auto begin = count / parts * i + std::min(i, count % parts);
        body(user, begin, begin + count / parts + (i < count % parts));
    });
}

}  // namespace

RefactorHost const& library_host() {
    static RefactorHost const kHost{
        .bytes = sizeof(RefactorHost),
        .fail = fail,
        .attribute_int = scalar<int64_t>,
        .attribute_float = scalar<float>,
        .attribute_text = text,
        .attribute_ints = list<int64_t>,
        .attribute_floats = list<float>,
        .input_count = [](RefactorContext* context) { return static_cast<uint32_t>(context->inputs); },
        .output_count = [](RefactorContext* context) { return static_cast<uint32_t>(context->outputs); },
        .input_type = input_type,
        .input_rank = input_rank,
        .input_size = input_size,
        .input_value = input_value,
        .set_output = set_output,
        .allocate = allocate,
        .set_text = set_text,
        .parallel_for = parallel_for,
    };
    return kHost;
}

}  // namespace refactor::frontend
