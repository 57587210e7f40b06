#include "cuda_plugin/dnn_library.h"

#include "cuda_plugin/device.h"

#include <cstddef>

#include <dlfcn.h>

namespace refactor::cuda_plugin {

namespace {

constexpr char const* kFile = "libcudnn.so.9";

template <class F>
void find(void* library, char const* name, F& function, std::string& missing) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (!function) missing = std::string(kFile) + " has no " + name;
}

DnnLibrary load() {
    DnnLibrary dnn;
    load_builtins();
    auto* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        auto const* reason = dlerror();
        dnn.missing = std::string("cuDNN: ") + (reason ? reason : kFile);
        return dnn;
    }
    find(library, "cudnnGetVersion", dnn.version, dnn.missing);
    find(library, "cudnnCreate", dnn.create, dnn.missing);
    find(library, "cudnnSetStream", dnn.set_stream, dnn.missing);
    find(library, "cudnnGetErrorString", dnn.error_text, dnn.missing);
    find(library, "cudnnGetLastErrorString", dnn.last_error, dnn.missing);
    find(library, "cudnnBackendCreateDescriptor", dnn.create_descriptor, dnn.missing);
    find(library, "cudnnBackendDestroyDescriptor", dnn.destroy_descriptor, dnn.missing);
    find(library, "cudnnBackendSetAttribute", dnn.set_attribute, dnn.missing);
    find(library, "cudnnBackendGetAttribute", dnn.get_attribute, dnn.missing);
    find(library, "cudnnBackendFinalize", dnn.finalize, dnn.missing);
    find(library, "cudnnBackendExecute", dnn.execute, dnn.missing);
    return dnn;
}

}  // namespace

DnnLibrary const& DnnLibrary::get() {
    static auto const* dnn = new DnnLibrary(load());
    return *dnn;
}

void check(cudnnStatus_t status, char const* call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    auto const& dnn = DnnLibrary::get();
    char more[1024] = "";
    dnn.last_error(more, sizeof more);
    auto text = std::string(call) + ": " + dnn.error_text(status);
    throw DnnFailure{status, *more ? text + " (" + more + ")" : text};
}

namespace {

/// Bytes of a value that means the same everywhere; 0: it is an address, or a descriptor.
size_t bytes_of(cudnnBackendAttributeType_t type) {
    switch (type) {
        case CUDNN_TYPE_HANDLE:
        case CUDNN_TYPE_VOID_PTR:
        case CUDNN_TYPE_BACKEND_DESCRIPTOR:
            return 0;
        case CUDNN_TYPE_INT64:
        case CUDNN_TYPE_DOUBLE:
            return 8;
        case CUDNN_TYPE_BOOLEAN:
        case CUDNN_TYPE_CHAR:
            return 1;
        default:
            return sizeof(int);
    }
}

void append(std::string& content, void const* bytes, size_t count) {
    content.append(static_cast<char const*>(bytes), count);
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
    append(content_, &type, sizeof type);
    check(DnnLibrary::get().create_descriptor(type, &native_), "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
    if (native_) DnnLibrary::get().destroy_descriptor(native_);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                            void const* values) {
    check(DnnLibrary::get().set_attribute(native_, name, type, count, values), "cudnnBackendSetAttribute");
    if (type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_VOID_PTR) return *this;
    append(content_, &name, sizeof name);
    append(content_, &count, sizeof count);
    append(content_, values, bytes_of(type) * static_cast<size_t>(count));
    return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, Descriptor const& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.native_);
    content_ += value.content_;
    return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::vector<Descriptor> const& values) {
    std::vector<cudnnBackendDescriptor_t> natives;
    for (auto const& value : values) natives.push_back(value.native_);
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(natives.size()), natives.data());
    for (auto const& value : values) content_ += value.content_;
    return *this;
}

Descriptor&& Descriptor::finished() {
    check(DnnLibrary::get().finalize(native_), "cudnnBackendFinalize");
    return std::move(*this);
}

}  // namespace refactor::cuda_plugin
