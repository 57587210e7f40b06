#pragma once
#include "device_arrays.h"
#include "model.h"
#include "runtime/session.h"

#include <atomic>

namespace refactor::python {

/// An executor with what its Python face needs: names as Python strings, a guard against use by two threads at once,
/// and the knowledge whether a run is long enough to let go of the GIL.
class PyExecutor {
public:
    PyExecutor(PyProgram program, std::string allocator, int threads);
    explicit PyExecutor(PyExecutor const& other);

    /// Marks the executor as used by the calling thread. Throws `InvalidInput` if another one uses it.
    class Use {
        std::atomic_flag& flag_;

    public:
        explicit Use(PyExecutor& executor);
        ~Use() { flag_.clear(std::memory_order_release); }
        Use(Use const&) = delete;
        Use& operator=(Use const&) = delete;
    };

    PyProgram const& program() const { return program_; }
    runtime::Session& native() { return *native_; }

    /// Number of the input (output) that `key`, an int or str, names. Throws `InvalidInput` listing what there is.
    size_t input_index(py::handle key) const;
    size_t output_index(py::handle key) const;
    void set_input(size_t index, py::handle array, bool copy);
    /// Replaces what is carried by outputs that become inputs.
    void carry(std::vector<std::pair<size_t, size_t>> pairs);
    /// Continues with another program of the same model on `device`, keeping the inputs. On an error nothing has
    /// changed.
    void retarget(PyProgram program, mem_manager::Device& device, std::string allocator);
    /// Runs with the GIL released, unless the run is known to be so short that this would cost more than it gives.
    void run(runtime::RunOptions const& options);
    py::object output(size_t index) const;
    /// The output where it is.
    DeviceArray output_blob(size_t index);
    /// The short way: inputs by a dict or in order, outputs as a dict. A new reference.
    PyObject* call(PyObject* arguments, PyObject* keywords);

private:
    void take_names();
    runtime::Value value_for(py::handle array, runtime::PortInfo const& port, bool copy) const;
    void set_inputs(PyObject* arguments);
    void weigh();

    PyProgram program_;
    std::unique_ptr<runtime::Session> native_;
    std::vector<py::object> input_names_, output_names_;
    std::atomic_flag used_;
    std::vector<uint8_t> given_;            ///< scratch of `set_inputs`
    std::vector<uint8_t> carried_outputs_;  ///< 1: becomes an input of the next run
    runtime::Plan const* weighed_ = nullptr;
    bool short_ = false;                  ///< runs of the plan `weighed_` keep the GIL
    std::optional<uint64_t> ordered_in_;  ///< stream of the last run, if nothing has waited for it
    bool sizes_changed_ = true;           ///< since the last run: a new plan may have to be made
};

/// Now + `seconds`. Throws `InvalidInput` for a negative number or NaN.
std::chrono::steady_clock::time_point deadline_after(double seconds);

}  // namespace refactor::python
