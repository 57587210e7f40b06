#pragma once
#include "mem_manager/blob.h"
#include "module.h"

#include <memory>

namespace refactor::python {

/// The bytes of a contiguous Python buffer (bytes, a mapped file, an array), shared, not copied; the buffer is held
/// until the blob's last owner goes, on whatever thread. Copied, when it is first used, only if the address is not a
/// multiple of `alignment`. Pages of a mapped file that have been read are given back.
/// Throws `InvalidInput` if it is not contiguous.
std::shared_ptr<mem_manager::Blob> share_buffer(py::handle buffer, size_t alignment);

/// Drops a reference from any thread, with or without the GIL; does nothing once the interpreter is shutting down.
void release_object(PyObject* object) noexcept;

}  // namespace refactor::python
