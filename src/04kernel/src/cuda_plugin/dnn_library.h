#pragma once
#include "cuda_plugin/cudnn_interface.h"
#include "cuda_plugin/device.h"

#include <string>
#include <vector>

namespace refactor::cuda_plugin {

/// The functions, by their names without "cudnn" and "cudnnBackend".
struct DnnFunctions {
    size_t (*version)() = nullptr;
    cudnnStatus_t (*create)(cudnnHandle_t* handle) = nullptr;
    cudnnStatus_t (*set_stream)(cudnnHandle_t handle, cudaStream_t stream) = nullptr;
    char const* (*error_text)(cudnnStatus_t status) = nullptr;
    void (*last_error)(char* text, size_t bytes) = nullptr;
    cudnnStatus_t (*create_descriptor)(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) = nullptr;
    cudnnStatus_t (*destroy_descriptor)(cudnnBackendDescriptor_t descriptor) = nullptr;
    cudnnStatus_t (*set_attribute)(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t count, void const* values) = nullptr;
    cudnnStatus_t (*get_attribute)(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t room, int64_t* count,
                                   void* values) = nullptr;
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t descriptor) = nullptr;
    cudnnStatus_t (*execute)(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t operands) = nullptr;
};

/// cuDNN's functions, of a library that is loaded when it is first needed: whoever has none can use everything else.
struct DnnLibrary : DnnFunctions {
    std::string missing;  ///< why it cannot be used; empty if it can

    static DnnLibrary const& get();
};

/// A cuDNN call that failed; leaves the functions of this plugin as their code and text.
struct DnnFailure {
    cudnnStatus_t status;
    std::string text;
};
/// Throws `DnnFailure` unless `status` is success.
void check(cudnnStatus_t status, char const* call);

/// A backend descriptor. Setters throw `DnnFailure`.
class Descriptor {
    cudnnBackendDescriptor_t native_ = nullptr;
    std::string content_;

public:
    explicit Descriptor(cudnnBackendDescriptorType_t type);
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept : native_(other.native_), content_(std::move(other.content_)) {
        other.native_ = nullptr;
    }
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(native_, other.native_);
        content_.swap(other.content_);
        return *this;
    }

    cudnnBackendDescriptor_t native() const { return native_; }
    /// Its type and everything that it was set to, handles and addresses left out: equal for descriptions of the same.
    std::string const& content() const { return content_; }
    Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                    void const* values);
    Descriptor& set(cudnnBackendAttributeName_t name, Descriptor const& value);
    Descriptor& set(cudnnBackendAttributeName_t name, std::vector<Descriptor> const& values);
    Descriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
        return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
    }
    Descriptor& set(cudnnBackendAttributeName_t name, int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
    Descriptor& set(cudnnBackendAttributeName_t name, float value) { return set(name, CUDNN_TYPE_FLOAT, 1, &value); }
    Descriptor& set(cudnnBackendAttributeName_t name, double value) { return set(name, CUDNN_TYPE_DOUBLE, 1, &value); }
    Descriptor& set(cudnnBackendAttributeName_t name, bool value) { return set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
    Descriptor& set(cudnnBackendAttributeName_t name, std::vector<int64_t> const& values) {
        return set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
    }
    Descriptor&& finished();
};

}  // namespace refactor::cuda_plugin
