#include "ncnn/layer.h"

#include <algorithm>

namespace refactor::pnnx {

using frontend::concat;
using frontend::Tensor;

void define_ncnn_attention(LayerDefinitions&);
void define_ncnn_elementwise(LayerDefinitions&);
void define_ncnn_recurrent(LayerDefinitions&);
void define_ncnn_shape(LayerDefinitions&);
void define_ncnn_weighted(LayerDefinitions&);
void define_ncnn_window(LayerDefinitions&);

namespace {

constexpr int64_t kArray = -23300;

LayerDefinitions make_layers() {
    LayerDefinitions all;
    for (auto* define : {define_ncnn_attention, define_ncnn_elementwise, define_ncnn_recurrent, define_ncnn_shape,
                         define_ncnn_weighted, define_ncnn_window})
        define(all);
    return all;
}

}  // namespace

bool translate(NcnnLayer& layer) {
    static auto const kLayers = make_layers();
    for (auto const& def : kLayers)
        if (def.name == layer.node().type) {
            def.translate(layer);
            return true;
        }
    return false;
}

NcnnLayer::NcnnLayer(ParamNode const& node, NcnnWeights& weights, GraphMaker& maker, frontend::Problems& problems)
    : node_(node), weights_(weights), maker_(maker), problems_(problems) {
    for (auto const& [key, value] : node.parameters) {
        Term id;
        if (!parse_number(key, id) || !id.is(Term::Kind::Int)) {
            refuse(concat("the parameter ", quoted(key), " has no number"), false);
            continue;
        }
        bool array = id.integer <= kArray;
        // `count,a,b` of an old array; a new one is `a,b`.
        auto term =
            value.find(',') != value.npos || array ? parse_literal(concat("(", value, ")")) : parse_literal(value);
        if (value.starts_with('"')) term = Term::of_text(value.substr(1, value.size() - 1 - value.ends_with('"')));
        if (array && term.is(Term::Kind::List) && !term.items.empty()) term.items.erase(term.items.begin());
        parameters_[array ? kArray - id.integer : id.integer] = std::move(term);
    }
}

void NcnnLayer::refuse(std::string const& what, bool legal) {
    failed_ = true;
    auto text = concat("line ", node_.line, ": layer ", quoted(node_.name), " (", node_.type, "): ", what);
    (legal ? problems_.unsupported : problems_.invalid).push_back(std::move(text));
}

double NcnnLayer::number(int64_t id, double fallback) {
    auto found = parameters_.find(id);
    if (found == parameters_.end()) return fallback;
    auto const& term = found->second;
    if (term.is(Term::Kind::Int)) return static_cast<double>(term.integer);
    if (term.is(Term::Kind::Float)) return term.number;
    refuse(concat("parameter ", id, " is ", to_string(term), ", expected a number"), false);
    return fallback;
}

int64_t NcnnLayer::integer(int64_t id, int64_t fallback) {
    auto found = parameters_.find(id);
    if (found == parameters_.end()) return fallback;
    if (found->second.is(Term::Kind::Int)) return found->second.integer;
    refuse(concat("parameter ", id, " is ", to_string(found->second), ", expected an integer"), false);
    return fallback;
}

std::vector<double> NcnnLayer::numbers(int64_t id) {
    std::vector<double> values;
    auto found = parameters_.find(id);
    if (found == parameters_.end()) return values;
    auto const& term = found->second;
    auto items = term.is(Term::Kind::List) ? term.items : std::vector<Term>{term};
    for (auto const& item : items) {
        if (item.is(Term::Kind::Int))
            values.push_back(static_cast<double>(item.integer));
        else if (item.is(Term::Kind::Float))
            values.push_back(item.number);
        else
            refuse(concat("parameter ", id, " has the entry ", to_string(item), ", expected a number"), false);
    }
    return values;
}

std::vector<int64_t> NcnnLayer::list(int64_t id) {
    std::vector<int64_t> values;
    for (auto value : numbers(id)) values.push_back(static_cast<int64_t>(std::clamp(value, -0x1p40, 0x1p40)));
    return values;
}

std::string NcnnLayer::text(int64_t id) const {
    auto found = parameters_.find(id);
    return found == parameters_.end() ? std::string() : found->second.text;
}

std::string const& NcnnLayer::input(size_t i) {
    static std::string const kNone;
    if (i < node_.inputs.size()) return node_.inputs[i];
    refuse(concat("it has ", node_.inputs.size(), " inputs, expected more"), false);
    return kNone;
}

std::string const& NcnnLayer::output(size_t i) {
    static std::string const kNone;
    if (i < node_.outputs.size()) return node_.outputs[i];
    refuse(concat("it has ", node_.outputs.size(), " outputs, expected more"), false);
    return kNone;
}

std::optional<int64_t> NcnnLayer::count_of(std::string const& key, std::vector<int64_t> const& dims) {
    int64_t count = 1;
    for (auto size : dims)
        if (size < 0 || __builtin_mul_overflow(count, size, &count) || count > (int64_t{1} << 36)) {
            refuse(concat("the weight ", quoted(key), " has an absurd size"), false);
            return std::nullopt;
        }
    return count;
}

std::string NcnnLayer::add_weight(std::string const& key, std::vector<int64_t> const& dims, DataType dtype, Data data) {
    if (!data) {
        refuse(concat("the ", *count_of(key, dims), " elements of the weight ", quoted(key),
                      " cannot be read: ", data.error()),
               false);
        return {};
    }
    auto name = concat(node_.name, ".", key);
    Tensor tensor;
    tensor.dtype = dtype, tensor.shape = Shape(dims.begin(), dims.end()), tensor.constant = std::move(*data);
    if (!maker_.edges.contains(name)) maker_.sources.push_back(name);
    maker_.edges[name] = std::move(tensor);
    return name;
}

std::string NcnnLayer::weight(std::string const& key, std::vector<int64_t> const& dims, bool tagged) {
    auto count = count_of(key, dims);
    if (!count) return {};
    return add_weight(key, dims, DataType::F32, weights_.take(*count, tagged));
}

std::string NcnnLayer::byte_weight(std::string const& key, std::vector<int64_t> const& dims) {
    auto count = count_of(key, dims);
    if (!count) return {};
    auto data = weights_.take_bytes(*count);
    bool flags = false;
    if (data) {
        auto* bytes = static_cast<unsigned char const*>((*data)->data());
        flags = std::all_of(bytes, bytes + *count, [](unsigned char byte) { return byte <= 1; });
    }
    return add_weight(key, dims, flags ? DataType::Bool : DataType::I8, std::move(data));
}

std::string NcnnLayer::emit(std::string const& type, std::vector<std::pair<std::string, std::string>> const& inputs,
                            Named named, std::vector<std::string> outputs) {
    Arguments arguments;
    std::vector<std::string> names;
    for (auto const& [key, edge] : inputs) {
        auto term = Term::of_operand(names.size());
        names.push_back(edge);
        if (key.empty())
            arguments.positional.push_back(std::move(term));
        else
            arguments.named.emplace_back(key, std::move(term));
    }
    for (auto& argument : named) arguments.named.push_back(std::move(argument));
    if (outputs.empty()) outputs.push_back(concat(node_.name, "/", ++emitted_));
    if (failed_) return outputs[0];
    auto* def = find_operator(type);
    if (!def) {
        refuse(concat("the operator ", type, " is not supported"));
        return outputs[0];
    }
    for (auto const& problem : bind(*def, arguments)) refuse(problem);
    auto first = outputs[0];
    auto op = make_operator(failed_ ? nullptr : def, type, std::move(arguments), node_.type);
    maker_.add(node_.name, {node_.name, std::move(op)}, std::move(names), std::move(outputs));
    return first;
}

bool NcnnLayer::add_custom(frontend::CustomOperators const& customs) {
    auto custom = find_custom(customs, node_.type);
    if (!custom) return false;
    frontend::Attributes attributes;
    for (auto const& [id, term] : parameters_) {
        if (auto value = attribute_of(term))
            attributes.emplace_back(concat("p", id), std::move(*value));
        else
            refuse(concat("parameter ", id, " = ", to_string(term), " of a custom operator"));
    }
    if (!failed_)
        maker_.add(node_.name, {node_.name, make_custom(std::move(custom), std::move(attributes))}, node_.inputs,
                   node_.outputs);
    return true;
}

void NcnnLayer::finish(std::string const& result) {
    auto parameters = numbers(10);
    auto parameter = [&](size_t i, double fallback) {
        return Term::of_float(i < parameters.size() ? parameters[i] : fallback);
    };
    Named arguments;
    std::string type = "pnnx.Output";
    switch (integer(9, 0)) {
        case 0:
            break;
        case 1:
            type = "nn.ReLU";
            break;
        case 2:
            type = "nn.LeakyReLU", arguments = {{"negative_slope", parameter(0, 0)}};
            break;
        case 3:
            type = "nn.Hardtanh", arguments = {{"min_val", parameter(0, 0)}, {"max_val", parameter(1, 0)}};
            break;
        case 4:
            type = "nn.Sigmoid";
            break;
        case 5:
            type = "nn.Mish";
            break;
        case 6:
            type = "ncnn.HardSwish", arguments = {{"alpha", parameter(0, 0.2)}, {"beta", parameter(1, 0.5)}};
            break;
        default:
            return refuse(concat("the activation ", integer(9, 0)));
    }
    emit(type, {{"input", result}}, std::move(arguments), {output()});
}

Term list_of(std::vector<int64_t> const& values) {
    std::vector<Term> items;
    for (auto value : values) items.push_back(Term::of_int(value));
    return Term::of_list(std::move(items));
}

Term flag(bool value) {
    Term term;
    term.kind = Term::Kind::Bool, term.integer = value;
    return term;
}

void NcnnLayer::emit_in_batch(std::string const& type, std::vector<std::pair<std::string, std::string>> inputs,
                              Named arguments) {
    inputs.emplace_back("input", emit("torch.unsqueeze", {{"input", input(0)}}, {{"dim", Term::of_int(0)}}));
    auto result = emit(type, inputs, std::move(arguments));
    emit("torch.squeeze", {{"input", result}}, {{"dim", Term::of_int(0)}}, {output()});
}

}  // namespace refactor::pnnx
