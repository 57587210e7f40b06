#pragma once
#include <cstdint>

/// The binary interface of DLPack 1.x (https://dmlc.github.io/dlpack/latest/c_api.html), as far as it is used: tensors
/// that libraries hand to each other without copying, in capsules named "dltensor" and "dltensor_versioned".
namespace refactor::python::dlpack {

// NOLINTBEGIN(readability-identifier-naming): the specification's names.
enum DeviceType : int32_t { kCPU = 1, kCUDA = 2, kCUDAHost = 3, kCUDAManaged = 13 };
struct Device {
    int32_t device_type = kCPU, device_id = 0;
};

struct DataType {
    uint8_t code = 0, bits = 0;
    uint16_t lanes = 1;
    bool operator==(DataType const&) const = default;
};

struct Tensor {
    void* data = nullptr;
    Device device;
    int32_t ndim = 0;
    DataType dtype;
    int64_t* shape = nullptr;
    int64_t* strides = nullptr;  ///< in elements; null: row-major
    uint64_t byte_offset = 0;
};

struct ManagedTensor {
    Tensor dl_tensor;
    void* manager_ctx = nullptr;
    void (*deleter)(ManagedTensor* self) = nullptr;
};

struct Version {
    uint32_t major = 1, minor = 0;
};

constexpr uint64_t kIsCopied = 2;

struct ManagedTensorVersioned {
    Version version;
    void* manager_ctx = nullptr;
    void (*deleter)(ManagedTensorVersioned* self) = nullptr;
    uint64_t flags = 0;  ///< bit 0: read only; bit 1: `kIsCopied`
    Tensor dl_tensor;
};
// NOLINTEND(readability-identifier-naming)

}  // namespace refactor::python::dlpack
