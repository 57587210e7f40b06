#pragma once
#include "pass.h"

#include <unordered_map>
#include <vector>

namespace refactor::computation {

/// Whether it has channels and 1 to 3 spatial axes.
bool is_image(EdgePtr edge);
bool has_one_element(EdgePtr edge);
/// [N, C, spatial…] with the channels behind.
Shape channels_last(Shape const& shape);

/// Rewrites nodes of images so that the channels of their operands lie behind the spatial axes, [N, spatial…, C], with
/// Transpose nodes around them (Reshape, where there is one position only). What a node made with the channels last is
/// read so by the next one, and `remove_dead_nodes` clears the transposes that nobody reads.
class ChannelsLastRegion {
protected:
    Graph& graph_;
    std::unordered_map<EdgePtr, EdgePtr> last_;  ///< tensors that exist with channels last

    explicit ChannelsLastRegion(Graph& graph) : graph_(graph) {}

    EdgePtr with_channels_last(EdgePtr edge);
    /// Remembers that what `node` brings into the usual order exists with channels last.
    bool adopt(NodePtr node);
    /// `y` is what `moved` is with channels in front.
    void produce(EdgePtr moved, EdgePtr y);
    /// Replaces a node by `op`, with the inputs that `follow` last; its output is, too.
    void convert(NodePtr node, std::shared_ptr<Operator const> op, std::vector<bool> const& follows);
    /// The same elements under another shape.
    EdgePtr reshape(EdgePtr edge, std::string const& suffix, Shape shape);

    /// Elementwise nodes, and if `quantising` those, too, whose images all are in the region. Beside an image there may
    /// be gates, one value for each image and channel.
    bool follow(NodePtr node, bool quantising);
    bool convert_concat(NodePtr node);
    bool convert_split(NodePtr node);
    /// Pooling over all positions, or a reduction over the spatial axes, of a node whose input 0 is in the region.
    bool convert_reduction(NodePtr node);
    /// Of a node whose input 0 is in the region; nothing else of it follows.
    bool convert_resize(NodePtr node);

private:
    EdgePtr transpose(EdgePtr edge, bool to_last);
};

}  // namespace refactor::computation
