#include "program/part_placement.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

constexpr size_t kAlignment = 64;

}  // namespace

PartPlacement::PartPlacement(ProgramParts const& parts, SizeTable const& sizes, std::span<TensorDesc const> descs,
                             std::vector<bool> const& is_known)
    : parts_(parts), sizes_(sizes), descs_(descs), fixed_(is_known), needless_(parts.nodes.size()) {
    for (uint32_t edge = 0; edge < parts_.edges.size(); ++edge) links_.push_back({edge, 0});
    for (auto edge : parts_.inputs) fixed_[edge] = true;
    for (auto const& node : parts_.nodes)
        if (node.kernels.empty()) links_[node.outputs[0]] = {node.inputs[0], 0};
    for (auto edge : parts_.outputs) fixed_[place_of(edge).root] = true;
}

void PartPlacement::run() {
    for (uint32_t node = 0; node < parts_.nodes.size(); ++node)
        if (auto how = parts_.nodes[node].parts.how; how == PartRule::Cut || how == PartRule::Slice)
            needless_[node] = cut(node);
    for (auto node = static_cast<uint32_t>(parts_.nodes.size()); node-- > 0;)
        if (parts_.nodes[node].parts.how == PartRule::Join) needless_[node] = join(node);
}

Place PartPlacement::place_of(uint32_t edge) const {
    Place place{edge, 0};
    while (links_[place.root].root != place.root) {
        auto const& link = links_[place.root];
        place = {link.root, place.offset + link.offset};
    }
    return place;
}

size_t PartPlacement::bytes_of(uint32_t edge) const {
    return storage_bytes(descs_[edge].dtype, descs_[edge].stored_count());
}

/// Whether pieces along the axis are runs of whole elements.
bool PartPlacement::can_be_cut(TensorDesc const& whole, int64_t axis) const {
    if (bits_of(whole.dtype) % 8 || axis < 0 || axis >= static_cast<int64_t>(whole.dims.size())) return false;
    if (whole.layout != Layout::Plain && axis != 1) return false;
    return std::all_of(whole.dims.begin(), whole.dims.begin() + axis, [](int64_t size) { return size == 1; });
}

/// Whether the pieces, one behind the other, are the whole. The last one may end within a block of channels.
bool PartPlacement::has_rows(ProgramNode const& node, uint32_t whole, std::span<uint32_t const> pieces) const {
    auto const& desc = descs_[whole];
    auto axis = static_cast<size_t>(node.parts.axis);
    if (!can_be_cut(desc, node.parts.axis)) return false;
    size_t bytes = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
        auto piece = pieces[i];
        if (piece == kNoEdge) return false;
        auto const& part = descs_[piece];
        if (part.dtype != desc.dtype || part.layout != desc.layout || part.dims.size() != desc.dims.size() ||
            (part.dims[axis] % block_of(desc.layout) && i + 1 < pieces.size()))
            return false;
        bytes += bytes_of(piece);
    }
    return bytes == bytes_of(whole);
}

/// Of a slice that is one run of its input.
std::optional<size_t> PartPlacement::slice_offset(uint32_t number) const {
    auto const& node = parts_.nodes[number];
    auto const &x = descs_[node.inputs[0]], &y = descs_[node.outputs[0]];
    if (x.layout != y.layout || bits_of(x.dtype) % 8 || x.dims.size() != y.dims.size()) return std::nullopt;
    auto first = sizes_.node_slots[number];
    int64_t offset = 0, step = block_of(x.layout);
    bool whole = true;  // all axes behind
    for (auto axis = x.dims.size(); axis-- > 0;) {
        auto block = axis == 1 ? block_of(x.layout) : 1, all = x.dims[axis], part = y.dims[axis];
        auto start = sizes_.values[sizes_.slots[first + axis]], end = start + part;
        if (start == kUnbound || start < 0 || end > all) return std::nullopt;
        if (start % block || (end % block && end != all)) return std::nullopt;
        if (!whole && (part + block - 1) / block != 1) return std::nullopt;
        whole = whole && all == part;
        offset += start / block * step, step *= (all + block - 1) / block;
    }
    return static_cast<size_t>(offset) * static_cast<size_t>(bits_of(x.dtype) / 8);
}

/// Makes `parts` places in `whole`, the first at `offset`.
bool PartPlacement::place_parts(uint32_t whole, std::span<uint32_t const> parts, size_t offset) {
    if (fixed_[place_of(whole).root]) return false;
    std::vector<Place> places;
    for (auto part : parts) {
        if (fixed_[part] || offset % kAlignment) return false;
        places.push_back({whole, offset});
        offset += bytes_of(part);
    }
    for (size_t i = 0; i < parts.size(); ++i) links_[parts[i]] = places[i];
    return true;
}

bool PartPlacement::cut(uint32_t number) {
    auto const& node = parts_.nodes[number];
    auto whole = node.inputs[0];
    if (node.parts.how == PartRule::Slice) {
        auto offset = slice_offset(number);
        return offset && place_parts(whole, node.outputs, *offset);
    }
    return has_rows(node, whole, node.outputs) && place_parts(whole, node.outputs, 0);
}

/// If all pieces are where the whole would have them, it is there already.
bool PartPlacement::lie_side_by_side(uint32_t whole, std::span<uint32_t const> pieces) {
    auto begin = place_of(pieces[0]);
    auto next = begin;
    for (auto piece : pieces) {
        if (place_of(piece) != next) return false;
        next.offset += bytes_of(piece);
    }
    if (begin.root == whole || fixed_[begin.root] || begin.offset % kAlignment) return false;
    links_[whole] = begin;
    return true;
}

bool PartPlacement::join(uint32_t number) {
    auto const& node = parts_.nodes[number];
    auto whole = node.outputs[0];
    std::span<uint32_t const> pieces(node.inputs);
    if (node.outputs.size() != 1 || pieces.empty() || !has_rows(node, whole, pieces)) return false;
    auto target = place_of(whole);
    if (fixed_[target.root]) return false;
    if (target.root == whole && lie_side_by_side(whole, pieces)) return true;
    // The root of each piece, and where in the whole it begins.
    struct Piece {
        Place place;
        size_t begin, end;
    };
    std::vector<Piece> all;
    size_t begin = 0;
    for (auto piece : pieces) {
        auto bytes = bytes_of(piece);
        if (bytes) all.push_back({place_of(piece), begin, begin + bytes});
        begin += bytes;
    }
    auto fits = [&](Piece const& piece) {
        auto const& [root, offset] = piece.place;
        if (root == target.root) return offset == target.offset + piece.begin;
        if (fixed_[root] || piece.begin < offset || (piece.begin - offset) % kAlignment) return false;
        auto first = piece.begin - offset, last = first + bytes_of(root);
        return last <= begin && std::all_of(all.begin(), all.end(), [&](Piece const& other) {
                   bool inside = other.end > first && other.begin < last;
                   return inside ? other.place == Place{root, other.begin - first} : other.place.root != root;
               });
    };
    if (!std::all_of(all.begin(), all.end(), fits)) return false;
    for (auto const& piece : all)
        if (auto const& [root, offset] = piece.place; root != target.root && links_[root].root == root)
            links_[root] = {target.root, target.offset + piece.begin - offset};
    return true;
}

}  // namespace refactor::kernel
