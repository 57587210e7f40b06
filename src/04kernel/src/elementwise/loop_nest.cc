#include "elementwise/loop_nest.h"

#include "movement/movement.h"

namespace refactor::kernel::elementwise {

namespace {

using movement::to_string;

Rejection mismatch(size_t input, TensorDesc const& x, TensorDesc const& y) {
    return {"input " + std::to_string(input) + " of shape " + to_string(x.dims) + " in layout " +
            std::to_string(block_of(x.layout)) + " does not broadcast to " + to_string(y.dims) + " in layout " +
            std::to_string(block_of(y.layout))};
}

/// Strides of an input along the output's axes, 0 where it is repeated; false if the shapes do not fit.
bool broadcast_strides(Dims const& x, Dims const& y, Dims& strides) {
    if (x.size() > y.size()) return false;
    strides.resize(y.size());
    int64_t stride = 1;
    auto lead = y.size() - x.size();
    for (auto i = y.size(); i-- > 0;) {
        auto size = i < lead ? 1 : x[i - lead];
        if (size != 1 && size != y[i]) return false;
        strides[i] = size == 1 ? 0 : stride;
        stride *= size;
    }
    return true;
}

void classify(LoopNest& nest, LoopNest::Input& input, Dims const& sizes) {
    int64_t expected = 1;
    bool linear = true, uniform = true;
    for (auto i = sizes.size(); i-- > 0; expected *= sizes[i]) {
        linear = linear && input.strides[i] == expected;
        uniform = uniform && input.strides[i] == 0;
    }
    if (linear) {
        input.access = Access::Linear;
    } else if (uniform) {
        input.access = Access::Uniform;
    } else {
        input.access = input.strides.back() ? Access::Row : Access::RowScalar;
        input.strides.pop_back();
        nest.linear = false;
    }
}

Result<LoopNest, Rejection> make_plain(BindArgs const& args, std::span<int64_t const> input_bytes) {
    auto const& y = *args.outputs[0];
    LoopNest nest;
    nest.inputs.resize(args.inputs.size());
    for (size_t i = 0; i < args.inputs.size(); ++i) {
        if (!input_bytes[i]) continue;
        auto& input = nest.inputs[i];
        input.bytes = static_cast<int32_t>(input_bytes[i]);
        auto const& x = *args.inputs[i];
        if (x.layout != Layout::Plain || !broadcast_strides(x.dims, y.dims, input.strides))
            return Err{mismatch(i, x, y)};
    }
    Dims sizes;
    for (size_t axis = 0; axis < y.dims.size(); ++axis) {
        auto size = y.dims[axis];
        if (size == 1) continue;
        bool merge = !sizes.empty();
        for (auto& input : nest.inputs)
            if (input.bytes && merge) merge = input.strides[sizes.size() - 1] == input.strides[axis] * size;
        if (merge)
            sizes.back() *= size;
        else
            sizes.push_back(size);
        for (auto& input : nest.inputs)
            if (input.bytes) input.strides[sizes.size() - 1] = input.strides[axis];
    }
    for (auto& input : nest.inputs) {
        if (!input.bytes) continue;
        input.strides.resize(sizes.size());
        classify(nest, input, sizes);
    }
    nest.row = sizes.empty() ? 1 : sizes.back();
    if (!sizes.empty()) sizes.pop_back();
    for (auto size : sizes) nest.rows *= size;
    nest.outer = sizes;
    return nest;
}

/// Strides of an input with one value for each channel (and batch) along (N, blocks of channels, spatial axes), in
/// elements; in any layout, for the channels of one position are in order in all of them. False if it is none.
bool channel_strides(TensorDesc const& x, TensorDesc const& y, Dims& strides) {
    Dims dims(y.dims.size(), 1);
    auto lead = static_cast<int64_t>(y.dims.size()) - static_cast<int64_t>(x.dims.size());
    if (lead < 0 || (lead > 0 && x.layout != Layout::Plain)) return false;
    for (size_t i = 0; i < x.dims.size(); ++i) dims[i + lead] = x.dims[i];
    for (size_t i = 2; i < dims.size(); ++i)
        if (dims[i] != 1) return false;
    if (dims[1] != y.dims[1] || (dims[0] != 1 && dims[0] != y.dims[0])) return false;
    strides.resize(dims.size());
    auto block = block_of(x.layout);
    strides[0] = dims[0] == 1 ? 0 : (dims[1] + block - 1) / block * block, strides[1] = block_of(y.layout);
    return true;
}

/// The same for one in the output's layout that is repeated along any axes but the channels.
bool blocked_strides(TensorDesc const& x, TensorDesc const& y, Dims& strides) {
    if (x.layout != y.layout || x.dims.size() != y.dims.size() || x.dims[1] != y.dims[1]) return false;
    auto block = block_of(y.layout), stride = block;
    strides.resize(x.dims.size());
    for (auto axis = x.dims.size(); axis-- > 0;) {
        if (x.dims[axis] != 1 && x.dims[axis] != y.dims[axis]) return false;
        auto size = axis == 1 ? (x.dims[1] + block - 1) / block : x.dims[axis];
        strides[axis] = size == 1 ? 0 : stride;
        stride *= size;
    }
    return true;
}

/// Spatial axes that all inputs walk through alike become one; the last one is the row. Those of one channel have steps
/// of their own.
void merge_spatial(LoopNest& nest, Dims const& dims) {
    auto walks = [](LoopNest::Input const& input) {
        return !input.strides.empty() && input.access != Access::Position;
    };
    for (size_t axis = 2; axis < dims.size(); ++axis) {
        auto size = dims[axis];
        if (size == 1) continue;
        bool merge = nest.outer.size() > 2;
        for (auto const& input : nest.inputs)
            if (merge && walks(input)) merge = input.strides[nest.outer.size() - 1] == input.strides[axis] * size;
        if (merge)
            nest.outer.back() *= size;
        else
            nest.outer.push_back(size);
        for (auto& input : nest.inputs)
            if (walks(input)) input.strides[nest.outer.size() - 1] = input.strides[axis];
    }
    auto axes = nest.outer.size();
    nest.row = nest.block;
    if (axes > 2) nest.row *= nest.outer.back(), nest.outer.pop_back();
    for (auto size : nest.outer) nest.rows *= size;
    for (auto& input : nest.inputs) {
        if (!walks(input)) continue;
        input.access = axes > 2 && input.strides[axes - 1] ? Access::Row : Access::Pattern;
        input.strides.resize(nest.outer.size());
    }
}

/// A plain input with one channel: strides along (N, blocks of channels, spatial axes), in elements. False if it is
/// none.
bool position_strides(TensorDesc const& x, TensorDesc const& y, Dims& strides) {
    auto lead = static_cast<int64_t>(y.dims.size()) - static_cast<int64_t>(x.dims.size());
    if (x.layout != Layout::Plain || lead < 0 || (lead < 2 && x.dims[1 - lead] != 1)) return false;
    return broadcast_strides(x.dims, y.dims, strides);
}

Result<LoopNest, Rejection> make_blocked(BindArgs const& args, std::span<int64_t const> input_bytes) {
    auto const& y = *args.outputs[0];
    LoopNest nest;
    nest.block = static_cast<int32_t>(block_of(y.layout));
    nest.inputs.resize(args.inputs.size());
    if (y.dims.size() < 2) return Err{Rejection{"blocked layout of rank " + std::to_string(y.dims.size())}};
    nest.outer = {y.dims[0], (y.dims[1] + nest.block - 1) / nest.block};
    nest.positions = nest.outer;
    for (size_t i = 2; i < y.dims.size(); ++i) nest.positions.push_back(y.dims[i]);
    nest.valid = static_cast<int32_t>(y.dims[1] % nest.block);
    if (nest.valid) nest.linear = false;
    for (size_t i = 0; i < args.inputs.size(); ++i) {
        if (!input_bytes[i]) continue;
        auto& input = nest.inputs[i];
        auto const& x = *args.inputs[i];
        input.bytes = static_cast<int32_t>(input_bytes[i]);
        if (x.layout == y.layout && x.dims == y.dims) {
            input.access = Access::Linear;
        } else if (x.layout == Layout::Plain && x.count() == 1) {
            input.access = Access::Uniform;
        } else if (channel_strides(x, y, input.strides) || blocked_strides(x, y, input.strides)) {
            nest.linear = false;
            input.partial = x.layout != y.layout;
        } else if (position_strides(x, y, input.strides)) {
            input.access = Access::Position;
            nest.linear = false;
        } else {
            return Err{mismatch(i, x, y)};
        }
    }
    merge_spatial(nest, y.dims);
    return nest;
}

}  // namespace

Result<LoopNest, Rejection> LoopNest::make(BindArgs const& args, std::span<int64_t const> input_bytes) {
    auto const& y = *args.outputs[0];
    for (auto const* other : args.outputs)
        if (other->layout != y.layout || !(other->dims == y.dims))
            return Err{Rejection{"outputs of shapes " + to_string(y.dims) + " and " + to_string(other->dims)}};
    auto nest = y.layout == Layout::Plain ? make_plain(args, input_bytes) : make_blocked(args, input_bytes);
    if (nest && nest->linear) nest->row *= nest->rows, nest->rows = 1, nest->outer.clear();
    return nest;
}

}  // namespace refactor::kernel::elementwise
