#pragma once
#include "frontend/attributes.h"
#include "frontend/operator.h"

#include <optional>

/// Operators that users define. Importers look for them after the built-in ones.
namespace refactor::frontend {

/// An operator of a user in a range of versions of its domain. Immutable; used by many threads at the same time.
class CustomOperator {
public:
    std::string domain, name;
    int64_t first = 1;
    std::optional<int64_t> last;  ///< none: every later version

    virtual ~CustomOperator() = default;
    /// As of `Operator`.
    virtual Status infer(InferContext& context, Attributes const& attributes) const = 0;
    virtual Inferred<ProcedurePtr> procedure(ProcedureContext const& context, Attributes const& attributes) const = 0;
};
using CustomOperators = std::vector<std::shared_ptr<CustomOperator const>>;

/// The one that holds for version `version` of `domain`; the last one if there are several; null if there is none.
std::shared_ptr<CustomOperator const> find_custom(CustomOperators const& all, std::string_view domain,
                                                  std::string_view name, int64_t version);
/// A node of it. Runs as a procedure, and is never computed ahead: it may do more than compute.
std::shared_ptr<Operator const> make_custom(std::shared_ptr<CustomOperator const> definition, int64_t version,
                                            Attributes attributes);

/// A size in the form that `DimExpr::to_string` writes, and with `//`, `/` (rounding down) and `%` too: "3", "N + 1",
/// "ceil_div(H, 2)*W". Every name must be a symbol.
Inferred<DimExpr> parse_size(std::string_view text, SymbolTable const& symbols);

/// Type of a result as a user announces it: nothing where only the run knows a size, or even the rank.
struct AnnouncedType {
    DataType dtype = DataType::Undefined;
    std::optional<std::vector<std::optional<std::string>>> sizes;
};
/// Sets the types of all outputs; refuses another number of them.
Status set_announced(InferContext& context, std::vector<AnnouncedType> const& types);

/// Compares the results of a custom operator with what was announced, so that no program reads past them.
class ResultCheck {
    std::vector<std::optional<Shape>> inputs_;
    std::vector<Tensor> outputs_;
    std::vector<std::string> expected_;
    size_t symbols_;

public:
    explicit ResultCheck(ProcedureContext const& context);
    size_t output_count() const { return outputs_.size(); }
    DataType dtype(size_t i) const { return outputs_[i].dtype; }
    /// The announced type, "f32[N, 3]".
    std::string const& expected(size_t i) const { return expected_[i]; }
    /// Sizes of the outputs under those of the inputs; -1 where they do not follow from them, nothing if the rank is
    /// unknown. Throws `OperatorError` if one is negative.
    std::vector<std::optional<Dims>> expected_dims(std::span<runtime::Value const* const> inputs) const;
    /// Throws `OperatorError` naming the output, what it is and what was announced.
    void check(std::span<runtime::Value const* const> inputs, std::span<runtime::Value const> outputs) const;
};

}  // namespace refactor::frontend
