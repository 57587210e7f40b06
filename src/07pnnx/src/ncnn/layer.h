#pragma once
#include "importer.h"
#include "ncnn/weights.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refactor::pnnx {

/// One layer of an ncnn model on its way into operators of this library. Layers have numbered parameters, take their
/// weights from the bin file in order, and know no batch: tensors are [W], [H, W], [C, H, W] or [C, D, H, W].
class NcnnLayer {
    ParamNode const& node_;
    NcnnWeights& weights_;
    GraphMaker& maker_;
    frontend::Problems& problems_;
    std::map<int64_t, Term> parameters_;
    size_t emitted_ = 0;
    bool failed_ = false;

    /// Number of elements of a weight, or nothing, and the problem is noted.
    std::optional<int64_t> count_of(std::string const& key, std::vector<int64_t> const& dims);
    using Data = Result<std::shared_ptr<mem_manager::Blob const>, std::string>;
    /// Makes a source of what was read; its name.
    std::string add_weight(std::string const& key, std::vector<int64_t> const& dims, DataType dtype, Data data);

public:
    /// Arguments of an operator: terms whose operands are positions in `inputs`.
    using Named = std::vector<std::pair<std::string, Term>>;

    NcnnLayer(ParamNode const& node, NcnnWeights& weights, GraphMaker& maker, frontend::Problems& problems);

    ParamNode const& node() const { return node_; }
    /// Notes a problem of this layer.
    void refuse(std::string const& what, bool legal = true);
    bool failed() const { return failed_; }

    bool has(int64_t id) const { return parameters_.contains(id); }
    int64_t integer(int64_t id, int64_t fallback);
    double number(int64_t id, double fallback);
    /// Array parameters have the id -23300 - id in older files.
    std::vector<int64_t> list(int64_t id);
    std::vector<double> numbers(int64_t id);
    std::string text(int64_t id) const;

    std::string const& input(size_t i);
    std::string const& output(size_t i = 0);
    /// Takes a weight from the bin file; the name of its edge, empty on failure.
    std::string weight(std::string const& key, std::vector<int64_t> const& dims, bool tagged);
    /// The same for elements of one byte: bool if all are 0 or 1, else i8.
    std::string byte_weight(std::string const& key, std::vector<int64_t> const& dims);
    /// A node of operator `type`: `inputs` by argument name (or "" for positional ones), then other arguments. Without
    /// `outputs` it has one of its own, whose name is returned.
    std::string emit(std::string const& type, std::vector<std::pair<std::string, std::string>> const& inputs,
                     Named arguments = {}, std::vector<std::string> outputs = {});
    /// The same for an operator that wants a batch axis; the layer's input 0 and output 0 are without.
    void emit_in_batch(std::string const& type, std::vector<std::pair<std::string, std::string>> inputs,
                       Named arguments);
    /// Makes the layer a node of a user's operator; false if there is none of its type.
    bool add_custom(frontend::CustomOperators const& customs);
    /// The activation that a layer applies to its result (parameters 9 and 10), which becomes output 0.
    void finish(std::string const& result);
};

struct LayerDef {
    std::string_view name;
    void (*translate)(NcnnLayer&);
};
/// Where sources of `ncnn/` put the layers that they know: each defines `void define_ncnn_<family>(LayerDefinitions&)`.
using LayerDefinitions = std::vector<LayerDef>;

/// Brings a layer in; false if its type is not known.
bool translate(NcnnLayer& layer);

// For arguments.
Term list_of(std::vector<int64_t> const& values);
Term flag(bool value);

}  // namespace refactor::pnnx
