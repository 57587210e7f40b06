#pragma once
#include "pass.h"

namespace refactor::computation {

/// A mean or maximum of f32 over all spatial axes of an image becomes a GlobalPool, which reads blocked layouts as
/// well: gates of squeeze-and-excitation, heads of classifiers and of point clouds, as most exporters write them. Where
/// the axes are dropped, a Reshape follows. Only on the CPU, whose layouts these are; behind the passes that look for
/// means, before `select_layouts`.
int pool_means(Model&, PassContext const&);

}  // namespace refactor::computation
