#include "importer.h"

#include "common/error.h"
#include "ncnn/layer.h"

#include <algorithm>

namespace refactor::pnnx {

using frontend::concat;
using frontend::Tensor;

namespace {

/// Names of the integer inputs: those that lead to an Embed layer, perhaps through copies.
std::unordered_set<std::string> integer_inputs(std::vector<ParamNode> const& nodes) {
    std::unordered_set<std::string> integers;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
        bool copies =
            node->type == "Split" && std::any_of(node->outputs.begin(), node->outputs.end(),
                                                 [&](auto const& output) { return integers.contains(output); });
        if ((node->type == "Embed" || copies) && !node->inputs.empty()) integers.insert(node->inputs[0]);
    }
    return integers;
}

class NcnnImporter {
    InputShapes const& shapes_;
    frontend::CustomOperators const& customs_;
    frontend::Problems problems_;
    std::vector<ParamNode> nodes_;
    NcnnWeights weights_;
    GraphMaker maker_;
    SymbolTable symbols_;

    void add_input(ParamNode const& node, bool integer) {
        NcnnLayer layer(node, weights_, maker_, problems_);
        Tensor tensor;
        tensor.dtype = integer ? DataType::I32 : DataType::F32;
        Shape shape;
        for (auto id : {2, 11, 1, 0})
            if (auto size = layer.integer(id, 0); size > 0) shape.emplace_back(size);
        if (!shape.empty()) tensor.shape = std::move(shape);
        for (auto const& [name, dims] : shapes_)
            if (name == layer.output()) tensor.shape = given_shape(name, dims, symbols_);
        maker_.global_inputs.push_back(layer.output());
        maker_.edges[layer.output()] = std::move(tensor);
    }

    /// By number if they are called as pnnx calls them, out0, out1 …
    void order_outputs() {
        auto number = [](std::string const& name) {
            Term term;
            bool numbered = name.starts_with("out") && parse_number(name.substr(3), term) && term.is(Term::Kind::Int);
            return numbered ? term.integer : -1;
        };
        auto& all = maker_.global_outputs;
        if (std::all_of(all.begin(), all.end(), [&](auto const& name) { return number(name) >= 0; }))
            std::stable_sort(all.begin(), all.end(),
                             [&](auto const& a, auto const& b) { return number(a) < number(b); });
    }

public:
    NcnnImporter(std::string_view param, std::shared_ptr<mem_manager::Blob const> bin, InputShapes const& shapes,
                 frontend::CustomOperators const& customs)
        : shapes_(shapes), customs_(customs), nodes_(parse_param(param, problems_)), weights_(std::move(bin)) {}

    frontend::Model run() {
        auto integers = integer_inputs(nodes_);
        std::unordered_set<std::string> read;
        // After a layer whose weights could not be read the others would be read from the wrong place.
        bool lost = false;
        for (auto const& node : nodes_) {
            read.insert(node.inputs.begin(), node.inputs.end());
            if (node.type == "Input") {
                add_input(node, !node.outputs.empty() && integers.contains(node.outputs[0]));
                continue;
            }
            NcnnLayer layer(node, weights_, maker_, problems_);
            if (!lost && !translate(layer) && !layer.add_custom(customs_)) layer.refuse("this layer is not supported");
            lost = lost || (layer.failed() && weights_.left());
            if (layer.failed())
                maker_.add(node.name, {node.name, make_operator(nullptr, node.type, {})}, node.inputs, node.outputs);
        }
        // Outputs are what nobody reads.
        for (auto const& node : nodes_)
            for (auto const& output : node.outputs)
                if (!read.contains(output)) maker_.global_outputs.push_back(output);
        order_outputs();
        if (maker_.global_outputs.empty()) problems_.invalid.push_back("the model has no outputs");
        if (problems_.empty() && weights_.left())
            problems_.invalid.push_back(concat("the bin file has ", weights_.left(), " bytes that no layer reads"));
        if (!problems_.empty()) problems_.raise();
        check_inputs(shapes_, maker_.global_inputs);
        return build_model(std::move(maker_), std::move(symbols_), std::move(problems_));
    }
};

}  // namespace

frontend::Model load_ncnn(std::string_view param, std::shared_ptr<mem_manager::Blob const> bin,
                          InputShapes const& shapes, frontend::CustomOperators const& customs) {
    return NcnnImporter(param, std::move(bin), shapes, customs).run();
}

}  // namespace refactor::pnnx
