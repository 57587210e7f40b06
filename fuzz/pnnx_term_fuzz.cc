// The parsers of arguments, of pnnx.Expression, of lines, and of archives: each gets the whole input.
#include "07pnnx/src/param_file.h"
#include "07pnnx/src/term.h"
#include "07pnnx/src/zip_archive.h"
#include "target.h"

namespace refactor::fuzz {

namespace {

using namespace refactor::pnnx;

/// What is written of a term reads as the same again, unless it was cut.
void check(Term const& term) {
    auto text = to_string(term);
    require(text.size() <= 210, "the text of a term is not cut", text);
}

void run(std::string_view input) {
    if (input.ends_with('\n')) input.remove_suffix(1);
    check(parse_literal(input));
    if (auto parsed = parse_expression(input))
        check(*parsed);
    else
        require(!parsed.error().empty(), "a refusal without a reason", input);
    frontend::Problems problems;
    auto nodes = parse_param(input, problems);
    for (auto const& node : nodes) {
        require(node.inputs.size() + node.outputs.size() <= input.size(), "operands from nowhere", node.name);
        for (auto const& [key, value] : node.parameters) check(parse_literal(value));
    }
    auto archive = ZipArchive::open(mem_manager::Blob::copy_of(input.data(), input.size()));
    if (!archive) return;
    for (auto const* name : {"", "a", "l.weight"})
        if (archive->has(name))
            for (size_t alignment : {1, 8}) (void)archive->read(name, alignment);
}

}  // namespace

Target pnnx_term_target() { return {"pnnx_term", run}; }

}  // namespace refactor::fuzz
