#pragma once
#include "computation/saved_program.h"
#include "frontend/compile.h"

namespace refactor::frontend {

/// A compiled model as plain data: graphs as one piece of bytes that refers to tensors by number.
struct Saved {
    std::vector<std::byte> graph;
    std::vector<computation::SavedTensor> tensors;
};

/// Throws `Unsupported` naming every node that cannot be written: those that run code of users, and those that are
/// compiled when they run, from graphs of the front end.
Saved save(Compiled const& model);
void write(computation::GraphWriter&, Compiled const& model);

/// What was saved, with `tensors` as they were (rows of the file, for example, that stay where they are). Throws
/// `InvalidModel` for what `save` cannot have written, and as `computation::read_program` does.
Compiled read_compiled(computation::GraphReader&, computation::LoadOptions const& options);
Compiled load(std::span<std::byte const> graph, std::span<std::shared_ptr<mem_manager::Blob const> const> tensors,
              computation::LoadOptions const& options);

}  // namespace refactor::frontend
