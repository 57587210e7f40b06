#pragma once
#include "common/error.h"
#include "computation/graph.h"
#include "mem_manager/blob.h"

namespace refactor::computation {

/// A constant: type, sizes and row-major host data.
struct Constant {
    DataType dtype = DataType::Undefined;
    Dims dims;
    std::shared_ptr<mem_manager::Blob const> blob;
};

/// Bytes of a large constant that only moves or widens another one: computed whenever they are read, so that neither
/// takes memory before, and passes can take the other one instead (`derivation_of`).
class DerivedSource final : public mem_manager::BlobSource {
    std::shared_ptr<Operator const> op_;
    Constant from_, to_;  // `to_` has no data

public:
    DerivedSource(std::shared_ptr<Operator const> op, Constant from, Constant to)
        : op_(std::move(op)), from_(std::move(from)), to_(std::move(to)) {}
    void const* direct() const override { return nullptr; }
    void read(void* to) const override;
    void discard() const override;
    Operator const& op() const { return *op_; }
    Constant const& from() const { return from_; }
    Constant const& to() const { return to_; }  ///< without data
};

/// How `blob` is derived, or null; as long as `blob` lives.
DerivedSource const* derivation_of(std::shared_ptr<mem_manager::Blob const> const& blob);

/// Computes `op` on the CPU, on the calling thread, for inputs that are all known (a default `Constant`: absent).
/// `outputs` come with dtype and dims and are given their data, large ones that only move or widen the input as
/// `DerivedSource`. `params` are the values of `op->params()`. Returns why it cannot be computed: it is random, no
/// kernel, or what the kernel threw.
Result<std::vector<Constant>, kernel::Rejection> evaluate(std::shared_ptr<Operator const> const& op,
                                                          std::span<Constant const> inputs,
                                                          std::vector<Constant> outputs,
                                                          std::span<int64_t const> params);

}  // namespace refactor::computation
