#include "common/error.h"
#include "pass.h"
#include "passes/channels_last_convolutions.h"
#include "passes/channels_last_integers.h"
#include "passes/convolve_tokens.h"
#include "passes/cut_wide_strides.h"
#include "passes/drop_nan_guards.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/expand_quantization.h"
#include "passes/fold_affine.h"
#include "passes/fold_constants.h"
#include "passes/fold_nan_guards.h"
#include "passes/fold_pads.h"
#include "passes/fold_quantization.h"
#include "passes/fold_transposes.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_concats.h"
#include "passes/fuse_conv_chains.h"
#include "passes/fuse_elementwise.h"
#include "passes/fuse_epilogues.h"
#include "passes/fuse_gathered_matrices.h"
#include "passes/fuse_group_norm.h"
#include "passes/fuse_layer_norm.h"
#include "passes/fuse_prologues.h"
#include "passes/fuse_rotary.h"
#include "passes/hoist_reshapes.h"
#include "passes/join_caches.h"
#include "passes/keep_weights_quantized.h"
#include "passes/look_up_one_hots.h"
#include "passes/lower_precision.h"
#include "passes/merge_branches.h"
#include "passes/merge_phases.h"
#include "passes/merge_projections.h"
#include "passes/mix_heads.h"
#include "passes/modulate_channels.h"
#include "passes/move_quantization.h"
#include "passes/multiply_positions.h"
#include "passes/multiply_taps.h"
#include "passes/multiply_windows.h"
#include "passes/narrow_blocks.h"
#include "passes/narrow_halves.h"
#include "passes/narrow_rows.h"
#include "passes/pad_channels.h"
#include "passes/pool_positions.h"
#include "passes/recognise_activations.h"
#include "passes/remove_dead_nodes.h"
#include "passes/remove_identities.h"
#include "passes/reorder_channels_last.h"
#include "passes/round_operands.h"
#include "passes/round_products.h"
#include "passes/scale_channels.h"
#include "passes/select_layouts.h"
#include "passes/sink_concats.h"
#include "passes/sink_reshapes.h"
#include "passes/sink_squeezes.h"
#include "passes/sink_transposes.h"
#include "passes/slice_gathers.h"
#include "passes/store_weights.h"
#include "passes/trim_convolutions.h"
#include "passes/turn_weights.h"
#include "passes/untranspose_convolutions.h"
#include "passes/view_operands.h"
#include "passes/widen_halves.h"
#include "passes/widen_recurrent_weights.h"

#include <algorithm>
#include <set>

namespace refactor::computation {

namespace {

constexpr Pass kPasses[] = {
    {"remove_dead_nodes", remove_dead_nodes},
    {"remove_identities", remove_identities},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions},
    {"drop_nan_guards", drop_nan_guards},
    {"move_quantization", move_quantization},
    {"fold_quantization", fold_quantization},
    {"channels_last_integers", channels_last_integers},
    {"keep_weights_quantized", keep_weights_quantized},
    {"remove_dead_nodes", remove_dead_nodes},
    {"cut_wide_strides", cut_wide_strides},
    {"fold_pads", fold_pads},
    {"trim_convolutions", trim_convolutions},
    {"widen_recurrent_weights", widen_recurrent_weights},
    {"widen_halves", widen_halves},
    {"narrow_halves", narrow_halves},
    {"modulate_channels", modulate_channels},
    {"fold_constants", fold_constants},
    {"remove_identities", remove_identities},
    {"remove_dead_nodes", remove_dead_nodes},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions},
    {"expand_quantization", expand_quantization},
    {"slice_gathers", slice_gathers},
    {"sink_reshapes", sink_reshapes},
    {"sink_squeezes", sink_squeezes},
    {"hoist_reshapes", hoist_reshapes},
    {"sink_transposes", sink_transposes},
    {"remove_identities", remove_identities},
    {"remove_dead_nodes", remove_dead_nodes},
    {"sink_concats", sink_concats},
    {"untranspose_convolutions", untranspose_convolutions},
    {"scale_channels", scale_channels},
    {"fold_affine", fold_affine},
    {"merge_branches", merge_branches},
    {"multiply_taps", multiply_taps},
    {"merge_phases", merge_phases},
    {"mix_heads", mix_heads},
    {"fuse_group_norm", fuse_group_norm},
    {"fuse_layer_norm", fuse_layer_norm},
    {"fuse_elementwise", fuse_elementwise},
    {"recognise_activations", recognise_activations},
    {"sink_concats", sink_concats},
    {"fuse_attention", fuse_attention},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions},
    {"merge_projections", merge_projections},
    {"view_operands", view_operands},
    {"fold_transposes", fold_transposes},
    {"fuse_gathered_matrices", fuse_gathered_matrices},
    {"fold_nan_guards", fold_nan_guards},
    {"round_products", round_products},
    {"fuse_epilogues", fuse_epilogues},
    {"look_up_one_hots", look_up_one_hots},
    {"store_weights", store_weights},
    {"lower_precision", lower_precision},
    {"channels_last_convolutions", channels_last_convolutions},
    {"multiply_positions", multiply_positions},
    {"multiply_windows", multiply_windows},
    {"pad_channels", pad_channels},
    {"turn_weights", turn_weights},
    {"fuse_rotary", fuse_rotary},
    {"join_caches", join_caches},
    {"round_operands", round_operands},
    {"remove_dead_nodes", remove_dead_nodes},
    {"fold_constants", fold_constants},
    {"remove_identities", remove_identities},
    {"remove_dead_nodes", remove_dead_nodes},
    {"fuse_prologues", fuse_prologues},
    {"remove_dead_nodes", remove_dead_nodes},
    {"pool_positions", pool_positions},
    {"select_layouts", select_layouts},
    {"reorder_channels_last", reorder_channels_last},
    {"convolve_tokens", convolve_tokens},
    {"fuse_concats", fuse_concats},
    {"narrow_blocks", narrow_blocks},
    {"narrow_rows", narrow_rows},
    {"fuse_conv_chains", fuse_conv_chains},
};

}  // namespace

std::span<Pass const> pipeline() { return kPasses; }

std::vector<std::string> pass_names() {
    std::vector<std::string> names;
    for (auto const& pass : pipeline())
        if (std::find(names.begin(), names.end(), pass.name) == names.end()) names.emplace_back(pass.name);
    return names;
}

std::vector<Pass> select_passes(std::span<std::string const> selection) {
    std::set<std::string> on, known;
    for (auto const& pass : pipeline()) known.insert(pass.name);
    on = known;
    for (auto const& word : selection) {
        bool remove = word.starts_with('-');
        auto name = remove ? word.substr(1) : word;
        if (name == "all") {
            on = remove ? std::set<std::string>{} : known;
        } else if (!known.contains(name)) {
            std::string names;
            for (auto const& pass : pass_names()) names += (names.empty() ? "" : ", ") + pass;
            throw InvalidInput("unknown pass \"" + name + "\", expected \"all\" or one of: " + names);
        } else if (remove) {
            on.erase(name);
        } else {
            on.insert(name);
        }
    }
    std::vector<Pass> selected;
    for (auto const& pass : pipeline())
        if (on.contains(pass.name)) selected.push_back(pass);
    return selected;
}

}  // namespace refactor::computation
