#pragma once
#include "frontend/model.h"
#include "runtime/value.h"

#include <string>
#include <utility>
#include <vector>

namespace refactor::fuzz {

/// How a model is compiled and what it is run on.
struct RunSettings {
    std::vector<int64_t> sizes{3, 2, 5};  ///< of the symbols of its inputs, again from the front if there are more
    std::vector<std::pair<std::string, runtime::Value>> values = {};  ///< of inputs by name; the others get something
    std::vector<std::string> passes = {};
    std::string allocator = "default";
    bool exact = false;
};

/// `count` elements of any type but text, from small numbers that repeat. `values` may be empty.
void fill(DataType dtype, void* target, int64_t count, std::vector<double> const& values);

/// Runs what `make` returns, compiled, for two choices of sizes, and holds the results against the declared types.
/// Typed errors of the library end it, defects the process.
template <class Make>
void run_model(Make&& make, RunSettings const& settings);

/// For `run_model`: calls `run` and lets nothing pass but errors that a user may see.
class Guard {
public:
    template <class F>
    explicit Guard(F&& run) {
        try {
            run();
        } catch (...) {
            judge();
        }
    }

private:
    static void judge();
};

/// For `run_model`.
void compile_and_run(frontend::Model& model, RunSettings const& settings);

template <class Make>
void run_model(Make&& make, RunSettings const& settings) {
    Guard([&] {
        frontend::Model model = make();
        compile_and_run(model, settings);
    });
}

}  // namespace refactor::fuzz
