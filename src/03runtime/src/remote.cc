#include "remote.h"

#include "common/error.h"
#include "common/log.h"
#include "mem_manager/device.h"

#include <exception>

namespace refactor::runtime {

using mem_manager::Blob;

void Executor::Remote::upload(size_t index, Value const& value) {
    auto& copy = inputs_[index];
    if (&value.blob->device() == &stream.device()) {
        copy = value.blob;
        return;
    }
    auto bytes = storage_bytes(value.dtype, element_count(value.dims));
    // A block that another owner shares is an input of the caller's: not ours to write.
    if (!copy || copy.use_count() > 1 || copy->bytes() < bytes) {
        copy = nullptr;
        copy = Blob::make(stream.device(), bytes);
    }
    stream.copy_from_host(copy->data(), value.blob->data(), bytes);
}

void Executor::Remote::reserve(size_t index, size_t bytes) {
    auto& blob = outputs_[index];
    if (!blob || blob->bytes() != bytes) {
        blob = nullptr;
        blob = Blob::make(stream.device(), bytes);
    }
    fetched_[index] = false;
}

void Executor::Remote::fetch(size_t index, Value& value) {
    if (fetched_[index]) return;
    auto const& source = *outputs_[index];
    if (!value.blob || value.blob.use_count() > 1 || value.blob->bytes() != source.bytes())
        value.blob = Blob::make(mem_manager::cpu_device(), source.bytes());
    stream.copy_to_host(value.blob->data(), source.data(), source.bytes());
    fetched_[index] = true;
}

Executor::Remote::Settle::~Settle() {
    if (!remote_ || std::uncaught_exceptions() == 0) return;
    try {
        remote_->stream.synchronize();
    } catch (Error const& error) {
        log(LogLevel::Debug, std::string("after a failed run: ") + error.what());
    }
}

void const* Planner::constant_on(mem_manager::Device& device, Tensor const&) {
    throw InternalError("the planner has no constants for " + device.name());
}

}  // namespace refactor::runtime
