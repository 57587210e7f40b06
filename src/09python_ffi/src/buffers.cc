#include "buffers.h"

#include "common/error.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include <sys/mman.h>
#include <unistd.h>

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

// Smaller buffers are copied at once: an own block costs more than their bytes.
constexpr size_t kWorthWaiting = 4096;

/// A held Python buffer.
class BufferSource final : public mem_manager::BlobSource {
    std::unique_ptr<Py_buffer> view_;
    bool is_aligned_, is_file_;

    /// Pages that are only partly of these bytes stay.
    void discard(void const* first, size_t bytes) const {
        if (!is_file_) return;
        static auto const page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
        auto begin = reinterpret_cast<uintptr_t>(first), end = begin + bytes;
        begin = (begin + page - 1) / page * page, end = end / page * page;
        if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }

public:
    BufferSource(std::unique_ptr<Py_buffer> view, size_t alignment, bool is_file)
        : view_(std::move(view)),
          is_aligned_(reinterpret_cast<uintptr_t>(view_->buf) % alignment == 0),
          // Pages that were written to are not in the file.
          is_file_(is_file && view_->readonly) {}
    ~BufferSource() override {
        if (!can_take_gil()) {
            std::ignore = view_.release();
            return;
        }
        auto state = PyGILState_Ensure();
        PyBuffer_Release(view_.get());
        PyGILState_Release(state);
    }
    void const* direct() const override { return is_aligned_ ? view_->buf : nullptr; }
    void const* unaligned() const override { return view_->buf; }
    /// Piece by piece, so that pages of the file are not held beside all of the copy.
    void read(void* to) const override {
        constexpr size_t kPiece = size_t(1) << 20;
        auto const* from = static_cast<std::byte const*>(view_->buf);
        auto bytes = static_cast<size_t>(view_->len);
        for (size_t at = 0; at < bytes; at += kPiece) {
            auto count = std::min(kPiece, bytes - at);
            std::memcpy(static_cast<std::byte*>(to) + at, from + at, count);
            discard(from + at, count);
        }
    }
    void discard() const override { discard(view_->buf, static_cast<size_t>(view_->len)); }
};

/// Whether the buffer is (a view of) an `mmap.mmap`, whose pages come back from the file when they are read again.
bool is_mapped_file(py::handle buffer) {
    auto owner = py::reinterpret_borrow<py::object>(buffer);
    while (PyMemoryView_Check(owner.ptr())) owner = owner.attr("obj");
    return py::isinstance(owner, py::module_::import("mmap").attr("mmap"));
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
    auto source = std::make_unique<BufferSource>(std::move(view), alignment, is_mapped_file(buffer));
    if (bytes >= kWorthWaiting) return Blob::lazy(bytes, std::move(source));
    auto copy = Blob::make(mem_manager::cpu_device(), bytes);
    source->read(copy->data());
    return copy;
}

}  // namespace refactor::python
