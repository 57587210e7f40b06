#include "buffers.h"

#include "common/error.h"
#include "mem_manager/device.h"

namespace refactor::python {

using mem_manager::Blob;

namespace {

bool can_take_gil() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

}  // namespace

void release_object(PyObject* object) noexcept {
    if (!can_take_gil()) return;
    auto state = PyGILState_Ensure();
    Py_DECREF(object);
    PyGILState_Release(state);
}

std::shared_ptr<Blob> share_buffer(py::handle buffer, size_t alignment) {
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(buffer.ptr(), view.get(), PyBUF_SIMPLE) != 0) {
        PyErr_Clear();
        throw InvalidInput("expected a contiguous buffer of bytes, got " + std::string(Py_TYPE(buffer.ptr())->tp_name));
    }
    auto bytes = static_cast<size_t>(view->len);
    if (bytes == 0 || reinterpret_cast<uintptr_t>(view->buf) % alignment != 0) {
        std::shared_ptr<Blob> copy;
        try {
            copy = Blob::copy_of(view->buf, bytes);
        } catch (...) {
            PyBuffer_Release(view.get());
            throw;
        }
        PyBuffer_Release(view.get());
        return copy;
    }
    auto* held = view.release();
    return Blob::wrap(mem_manager::cpu_device(), held->buf, bytes, [held] {
        if (!can_take_gil()) return;
        auto state = PyGILState_Ensure();
        PyBuffer_Release(held);
        PyGILState_Release(state);
        delete held;
    });
}

}  // namespace refactor::python
