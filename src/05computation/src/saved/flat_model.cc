#include "saved/flat_model.h"

#include "common/error.h"
#include "pass.h"
#include "saved/operator_archive.h"

#include <algorithm>

namespace refactor::computation {

namespace {

using kernel::kNoEdge;

[[noreturn]] void fail(std::string const& what) { throw InvalidModel("not what was written: " + what); }

std::vector<std::string> names_of(SymbolTable const& symbols) {
    std::vector<std::string> names;
    for (SymbolId i = 0; i < symbols.size(); ++i) names.push_back(symbols.name(i));
    return names;
}

class Flattening {
    FlatModel flat_;
    std::unordered_map<EdgePtr, uint32_t> numbers_;

    uint32_t number_of(EdgePtr edge) {
        if (!edge) return kNoEdge;
        auto [it, fresh] = numbers_.try_emplace(edge, static_cast<uint32_t>(flat_.edges.size()));
        auto const& value = edge->value;
        if (fresh) flat_.edges.push_back({value.name, value.dtype, value.layout, value.shape, value.constant});
        return it->second;
    }
    template <class Edges>
    std::vector<uint32_t> numbers_of(Edges const& edges) {
        std::vector<uint32_t> numbers;
        for (auto* edge : edges) numbers.push_back(number_of(edge));
        return numbers;
    }

public:
    FlatModel run(Model const& model) {
        flat_.inputs = numbers_of(model.graph.inputs());
        for (auto* node : model.graph.topological()) {
            auto inputs = numbers_of(node->inputs());
            flat_.nodes.push_back({node->value.name, node->value.op, std::move(inputs), numbers_of(node->outputs())});
        }
        flat_.outputs = numbers_of(model.graph.outputs());
        flat_.output_names = model.output_names;
        flat_.symbols = names_of(model.symbols), flat_.conditions = model.conditions;
        return std::move(flat_);
    }
};

/// Builds the graph again; whatever numbers say is checked before it is used.
class Building {
    GraphReader& reader_;
    ReadModel result_;
    std::vector<Edge> values_;
    std::vector<bool> made_;

    Graph& graph() { return result_.model.graph; }

    void read_edges() {
        auto count = reader_.read<uint32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            Edge edge;
            edge.name = reader_.read<std::string>(), edge.dtype = reader_.read<DataType>();
            edge.layout = reader_.read<kernel::Layout>(), edge.shape = reader_.read<Shape>();
            auto constant = reader_.read<uint32_t>();
            if (constant != kNoTensor) edge.constant = reader_.tensor(constant);
            if (edge.dtype == DataType::Undefined || edge.layout > kernel::Layout::Blocked32)
                fail("edge \"" + edge.name + "\" without a type");
            values_.push_back(std::move(edge));
        }
        result_.edges.resize(count), made_.resize(count);
    }

    uint32_t checked(uint32_t number) const {
        if (number >= values_.size()) fail("edge " + std::to_string(number) + " of " + std::to_string(values_.size()));
        return number;
    }
    /// An edge that is an input, a constant, or made by a node before.
    EdgePtr known(uint32_t number) {
        auto& edge = result_.edges[checked(number)];
        if (!edge && values_[number].constant) edge = graph().add_source(values_[number]);
        if (!edge) fail("edge \"" + values_[number].name + "\" is used before it is made");
        return edge;
    }
    void make(uint32_t number, EdgePtr edge) {
        if (result_.edges[checked(number)] || values_[number].constant)
            fail("edge \"" + values_[number].name + "\" is made twice");
        edge->value = values_[number];
        result_.edges[number] = edge;
    }

    void read_node() {
        auto name = reader_.read<std::string>();
        auto inputs = reader_.read<std::vector<uint32_t>>(), outputs = reader_.read<std::vector<uint32_t>>();
        auto op = read_operator(reader_);
        std::vector<EdgePtr> operands;
        for (auto number : inputs) operands.push_back(number == kNoEdge ? nullptr : known(number));
        auto* node = graph().insert({std::move(name), std::move(op)}, operands, outputs.size());
        for (size_t i = 0; i < outputs.size(); ++i) make(outputs[i], node->output(i));
    }

    void read_symbols() {
        auto names = reader_.read<std::vector<std::string>>();
        for (auto const& name : names) result_.model.symbols.intern(name);
        if (result_.model.symbols.size() != names.size()) fail("two symbols of one name");
        if (reader_.symbols() > names.size()) fail("a symbol without a name");
    }

public:
    explicit Building(GraphReader& reader) : reader_(reader) {}

    ReadModel run() {
        read_symbols();
        read_edges();
        for (auto number : reader_.read<std::vector<uint32_t>>()) make(number, graph().add_input());
        for (auto count = reader_.read<uint32_t>(); count > 0; --count) read_node();
        for (auto number : reader_.read<std::vector<uint32_t>>()) graph().add_output(known(number));
        auto& model = result_.model;
        model.output_names = reader_.read<std::vector<std::string>>();
        model.conditions = reader_.read<std::vector<kernel::SizeCondition>>();
        auto problems = verify(model);
        if (!problems.empty()) fail(problems[0]);
        return std::move(result_);
    }
};

}  // namespace

FlatModel flatten(Model const& model) { return Flattening().run(model); }

FlatModel flatten(kernel::ProgramParts const& parts) {
    FlatModel flat;
    for (auto const& edge : parts.edges)
        flat.edges.push_back({edge.name, edge.dtype, edge.layout, edge.shape, edge.constant});
    for (auto const& node : parts.nodes)
        flat.nodes.push_back(
            {node.name, std::dynamic_pointer_cast<Operator const>(node.origin), node.inputs, node.outputs});
    flat.inputs = parts.inputs, flat.outputs = parts.outputs;
    for (auto edge : parts.outputs) flat.output_names.push_back(parts.edges[edge].name);
    flat.symbols = names_of(parts.symbols), flat.conditions = parts.conditions;
    return flat;
}

void write(GraphWriter& writer, FlatModel const& model) {
    writer.write(model.symbols);
    writer.write(static_cast<uint32_t>(model.edges.size()));
    for (auto const& edge : model.edges) {
        writer.write(edge.name), writer.write(edge.dtype), writer.write(edge.layout), writer.write(edge.shape);
        auto number = kNoTensor;
        if (edge.constant) {
            Dims dims;
            for (auto const& size : edge.shape) dims.push_back(size.constant().value_or(-1));
            number = writer.add({edge.name, edge.dtype, dims, edge.constant});
        }
        writer.write(number);
    }
    writer.write(model.inputs);
    writer.write(static_cast<uint32_t>(model.nodes.size()));
    for (auto const& node : model.nodes) {
        writer.write(node.name), writer.write(node.inputs), writer.write(node.outputs);
        ensure(node.op != nullptr, "write: a node without an operator");
        write_operator(writer, *node.op);
    }
    writer.write(model.outputs), writer.write(model.output_names), writer.write(model.conditions);
}

ReadModel read_model(GraphReader& reader) { return Building(reader).run(); }

}  // namespace refactor::computation
