#include "kernel/program.h"

#include "common/error.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "program/plan_build.h"
#include "program/reorder_plain.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// Bytes that the plans of a program keep, all together, of what follows from the sizes alone: masks of attention,
/// positions. Far more than a model's weights would be a surprise; a mask of 2,048 × 2,048 takes 16 MiB.
constexpr size_t kMostAhead = size_t(64) << 20;

std::string quoted(std::string const& name) { return '"' + name + '"'; }

runtime::PortInfo port_of(ProgramEdge const& edge, SymbolTable const& symbols) {
    runtime::PortInfo port{edge.name, edge.dtype, to_string(edge.shape, symbols), {}, {}};
    for (auto const& size : edge.shape) {
        port.dims.push_back(size.constant().value_or(-1));
        port.symbols.push_back(size.to_string(symbols));
    }
    return port;
}

}  // namespace

Program::Program(ProgramParts parts, size_t cached_plans) : parts_(std::move(parts)), cached_plans_(cached_plans) {
    edge_slots_.reserve(parts_.edges.size() + 1), node_slots_.reserve(parts_.nodes.size() + 1);
    for (auto const& edge : parts_.edges) {
        edge_slots_.push_back(static_cast<uint32_t>(slots_.size()));
        for (auto const& size : edge.shape) slots_.push_back(dims_.add(size));
    }
    edge_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    for (auto const& node : parts_.nodes) {
        node_slots_.push_back(static_cast<uint32_t>(slots_.size()));
        for (auto const& param : node.params) slots_.push_back(dims_.add(param));
    }
    node_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    for (auto const& condition : parts_.conditions) {
        condition_slots_.push_back(dims_.add(condition.actual));
        condition_slots_.push_back(dims_.add(condition.expected));
    }
    for (auto edge : parts_.inputs) inputs_.push_back(port_of(parts_.edges[edge], parts_.symbols));
    for (auto edge : parts_.outputs) outputs_.push_back(port_of(parts_.edges[edge], parts_.symbols));
}

Program::~Program() = default;

Bindings Program::bind_symbols(std::span<Dims const> input_dims) const {
    struct Origin {
        uint32_t input = UINT32_MAX, axis = 0;
    };
    Bindings bindings(parts_.symbols.size(), kUnbound);
    std::vector<Origin> origins(parts_.symbols.size());
    auto place = [&](uint32_t input, uint32_t axis) {
        return "input " + quoted(inputs_[input].name) + ", dimension " + std::to_string(axis);
    };
    ensure(input_dims.size() == parts_.inputs.size(), "bind_symbols: one shape for each input");
    for (uint32_t i = 0; i < input_dims.size(); ++i) {
        auto const& shape = parts_.edges[parts_.inputs[i]].shape;
        if (input_dims[i].size() != shape.size())
            throw InvalidInput("input " + quoted(inputs_[i].name) + " has rank " +
                               std::to_string(input_dims[i].size()) + ", expected " + std::to_string(shape.size()) +
                               ": " + inputs_[i].shape);
        for (uint32_t axis = 0; axis < shape.size(); ++axis) {
            auto symbol = shape[axis].as_symbol();
            if (!symbol) continue;
            auto actual = input_dims[i][axis];
            if (bindings[*symbol] == kUnbound) {
                bindings[*symbol] = actual;
                origins[*symbol] = {i, axis};
            } else if (bindings[*symbol] != actual) {
                throw InvalidInput(place(i, axis) + " is " + std::to_string(actual) + ", but " +
                                   quoted(parts_.symbols.name(*symbol)) + " is " + std::to_string(bindings[*symbol]) +
                                   " by " + place(origins[*symbol].input, origins[*symbol].axis));
            }
        }
    }
    for (uint32_t i = 0; i < input_dims.size(); ++i) {
        auto const& shape = parts_.edges[parts_.inputs[i]].shape;
        for (uint32_t axis = 0; axis < shape.size(); ++axis) {
            auto expected = shape[axis].evaluate(bindings);
            if (expected && *expected != input_dims[i][axis])
                throw InvalidInput(place(i, axis) + " is " + std::to_string(input_dims[i][axis]) + ", expected " +
                                   std::to_string(*expected) + ": " + inputs_[i].shape);
        }
    }
    return bindings;
}

void Program::check_conditions(std::span<int64_t const> values) const {
    for (size_t i = 0; i < parts_.conditions.size(); ++i) {
        auto actual = values[condition_slots_[2 * i]], expected = values[condition_slots_[2 * i + 1]];
        auto const& condition = parts_.conditions[i];
        if (actual == expected || actual == kUnbound || expected == kUnbound || (condition.or_one && actual == 1))
            continue;
        throw InvalidInput(condition.node + ": " + condition.what + " is " + std::to_string(actual) + ", expected " +
                           std::to_string(expected) + (condition.or_one && expected != 1 ? " or 1" : ""));
    }
}

std::shared_ptr<runtime::Plan const> Program::make_plan(std::span<Dims const> input_dims) {
    return make_plan(bind_symbols(input_dims), kMostAhead);
}

std::shared_ptr<runtime::Plan const> Program::make_plan(Bindings const& bindings) { return make_plan(bindings, 0); }

std::shared_ptr<runtime::Plan const> Program::make_plan(Bindings const& bindings, size_t room_ahead) {
    std::vector<int64_t> values(dims_.slots());
    dims_.evaluate(bindings, values);
    check_conditions(values);
    SizeTable sizes{values, slots_, edge_slots_, node_slots_};
    auto plan = PlanBuild(parts_, sizes, packs_, room_ahead).build();
    if (!plan) plan = PlanBuild(parts_, sizes, packs_, 0).build();
    packs_.trim();
    for (auto const& edge : parts_.edges)
        if (edge.constant) edge.constant->forget();
    return plan;
}

std::shared_ptr<runtime::Plan const> Program::plan(std::span<Dims const> input_dims) {
    auto lookup = [&]() -> std::shared_ptr<runtime::Plan const> {
        for (auto it = cache_.begin(); it != cache_.end(); ++it) {
            if (!std::equal(it->key.begin(), it->key.end(), input_dims.begin(), input_dims.end())) continue;
            cache_.splice(cache_.begin(), cache_, it);
            return cache_.front().plan;
        }
        return nullptr;
    };
    size_t made = 0;
    {
        std::lock_guard lock(mutex_);
        if (auto found = lookup()) return found;
        for (auto const& entry : cache_) made += entry.plan->made_bytes;
    }
    auto fresh = make_plan(bind_symbols(input_dims), kMostAhead - std::min(made, kMostAhead));
    std::lock_guard lock(mutex_);
    if (auto found = lookup()) return found;
    cache_.push_front({{input_dims.begin(), input_dims.end()}, fresh});
    if (cache_.size() > cached_plans_) cache_.pop_back();
    return fresh;
}

void Program::to_plain(runtime::Tensor const& tensor, void const* source, void* target) const {
    auto const& edge = parts_.edges[tensor.edge];
    reorder_to_plain(edge.layout, edge.dtype, tensor.dims, source, target);
}

void const* Program::constant_on(mem_manager::Device& device, runtime::Tensor const& tensor) {
    std::lock_guard lock(constants_mutex_);
    auto& copy = constants_[{&device, tensor.constant}];
    if (!copy) {
        auto fresh = mem_manager::Blob::make(device, tensor.bytes);
        device.copy_from_host(fresh->data(), mem_manager::Blob::Reader(*tensor.constant).data(), tensor.bytes);
        tensor.constant->forget();
        copy = std::move(fresh);
    }
    return copy->data();
}

std::string Program::to_string() const {
    std::string text;
    auto operand = [&](uint32_t edge) {
        if (edge == kNoEdge) return std::string("-");
        auto const& e = parts_.edges[edge];
        return e.name + ": " + std::string(name_of(e.dtype)) + refactor::to_string(e.shape, parts_.symbols) +
               (e.layout == Layout::Plain ? "" : "/c" + std::to_string(block_of(e.layout)));
    };
    for (auto const& node : parts_.nodes) {
        text += node.name + " = " + node.type + " (";
        for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + operand(node.inputs[i]);
        text += ") -> (";
        for (size_t i = 0; i < node.outputs.size(); ++i) text += (i ? ", " : "") + operand(node.outputs[i]);
        text += ')';
        for (auto const& kernel : node.kernels) text += "  " + kernel->id();
        text += node.kernels.empty() ? "  alias\n" : "\n";
    }
    return text;
}

}  // namespace refactor::kernel
