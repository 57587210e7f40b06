#pragma once
#include "common/dim_expr.h"
#include "computation/graph_archive.h"
#include "kernel/kernel.h"
#include "kernel/program.h"

namespace refactor::computation {

/// A semantic operator: what is computed, whatever framework it came from. Immutable; shared by graphs.
class Operator : public kernel::NodeOrigin {
    std::vector<DimExpr> params_;

public:
    explicit Operator(std::vector<DimExpr> params = {}) : params_(std::move(params)) {}
    virtual std::string_view type() const = 0;
    /// Canonical text of all attributes: two operators of one type with equal text and params compute the same.
    virtual std::string attributes() const = 0;
    /// Sizes that the operator needs beside its operands' shapes (slice starts, pads, …), evaluated when a shape is
    /// bound.
    std::span<DimExpr const> params() const { return params_; }
    /// Output 0 is input 0 under another shape: no kernel, same memory.
    virtual bool is_alias() const { return false; }
    /// Equal inputs may give different outputs: never computed ahead.
    virtual bool is_random() const { return false; }
    virtual kernel::Candidates candidates(kernel::Request const&) const = 0;
    /// Adds what beside type and params makes the operator, for `read_operator`.
    virtual void write(GraphWriter&) const = 0;
};

namespace detail {
template <class Info>
kernel::Candidates ask(Info const& info, kernel::Request const& request) {
    return candidates(info, request);
}
}  // namespace detail

/// The operator of a kernel info struct: `Basic<kernel::ConvInfo>` is the semantic convolution.
template <class Info>
class Basic final : public Operator {
public:
    Info info;
    explicit Basic(Info i, std::vector<DimExpr> params = {}) : Operator(std::move(params)), info(std::move(i)) {}
    std::string_view type() const override { return Info::kType; }
    std::string attributes() const override { return info.attributes(); }
    bool is_random() const override {
        return requires { Info::kRandom; };
    }
    kernel::Candidates candidates(kernel::Request const& request) const override { return detail::ask(info, request); }
    void write(GraphWriter& writer) const override { writer.write(info); }
};

/// The info of `op` if it is a `Basic<Info>`, else null.
template <class Info>
Info const* info_of(Operator const& op) {
    auto* basic = dynamic_cast<Basic<Info> const*>(&op);
    return basic ? &basic->info : nullptr;
}
template <class Info>
std::shared_ptr<Operator const> make_operator(Info info, std::vector<DimExpr> params = {}) {
    return std::make_shared<Basic<Info>>(std::move(info), std::move(params));
}

/// Reshape, Squeeze, Unsqueeze, Flatten, Identity: the same elements in the same order under the output's shape.
class Reshape final : public Operator {
public:
    std::string_view type() const override { return "Reshape"; }
    std::string attributes() const override { return {}; }
    bool is_alias() const override { return true; }
    kernel::Candidates candidates(
        kernel::Request const&) const override;  ///< a copy, for places where sharing is impossible
    void write(GraphWriter&) const override {}
};

}  // namespace refactor::computation
