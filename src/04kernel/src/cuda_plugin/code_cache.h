#pragma once
#include <string>

namespace refactor::cuda_plugin {

/// Compiled code on disk, in `$REFACTOR_GRAPH_CACHE`, else `$XDG_CACHE_HOME/refactor_graph`, else
/// `~/.cache/refactor_graph`; an empty `$REFACTOR_GRAPH_CACHE` switches it off. Never fails: what cannot be read is
/// compiled again. A file holds the source that it was made from, and a checksum.
class CodeCache {
    std::string path_, source_;

public:
    /// `target` names compiler and architecture: "nvrtc13.0-sm_90".
    CodeCache(std::string const& target, std::string source);
    /// The code, or nothing.
    std::string find() const;
    void store(std::string const& code) const;
};

}  // namespace refactor::cuda_plugin
