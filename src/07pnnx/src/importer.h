#pragma once
#include "frontend/attributes.h"
#include "graph_topo/builder.h"
#include "param_file.h"
#include "pnnx/model_reader.h"
#include "registry.h"
#include "zip_archive.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace refactor::pnnx {

/// Turns the nodes of a `.pnnx.param` file into a frontend model, collecting every problem on the way. Used once.
///
/// Values that are no tensors do not become nodes: literals, lists and tuples are kept as terms and written into the
/// arguments of who reads them.
class Importer {
public:
    Importer(std::string_view param, std::shared_ptr<mem_manager::Blob const> bin, InputShapes const& shapes,
             frontend::CustomOperators const& customs);
    /// Throws `InvalidModel` or `Unsupported` listing all problems.
    frontend::Model run();

private:
    /// A literal or list; `Operand` terms are numbers in `operands`.
    struct Bound {
        Term term;
        std::vector<std::string> operands;
        size_t size = 1;  ///< number of terms
    };
    /// Inputs of a node of the graph, each once.
    struct Inputs {
        std::vector<std::string> names;
        size_t position(std::string const& name);
    };

    InputShapes const& shapes_;
    frontend::CustomOperators const& customs_;
    frontend::Problems problems_;  ///< before the nodes, which are read into it
    std::vector<ParamNode> nodes_;
    std::optional<ZipArchive> archive_;
    SymbolTable symbols_;
    graph_topo::Builder<std::string, std::string, frontend::Node, frontend::Tensor> maker_;
    std::unordered_map<std::string, Bound> bound_;
    std::unordered_map<std::string, size_t> producers_;  ///< operand → index in maker_.nodes
    std::unordered_set<std::string> read_;               ///< operands that some node reads
    size_t inputs_seen_ = 0;

    void invalid(ParamNode const& node, std::string const& what);
    void unsupported(ParamNode const& node, std::string const& what);

    void import(ParamNode const& node);
    void add_input(ParamNode const& node);
    void add_output(std::string const& operand);
    void add_attribute(ParamNode const& node);
    void add_expression(ParamNode const& node);
    void bind_list(ParamNode const& node);
    void unpack(ParamNode const& node);
    void add_operator(ParamNode const& node);
    void add_custom(ParamNode const& node, std::shared_ptr<frontend::CustomOperator const> definition);

    /// `operand` as a term of a node with `inputs`.
    Term term_of(std::string const& operand, Inputs& inputs);
    /// `term` with its operands, which are numbers in `operands`, resolved.
    Term resolve(Term const& term, std::vector<std::string> const& operands, Inputs& inputs);
    void bind_term(ParamNode const& node, std::string const& operand, Term term, Inputs inputs);
    /// Puts a constant into the graph; its name.
    std::optional<std::string> add_weight(ParamNode const& node, std::string const& key, WrittenType const& type);
    /// The name of the constant that an operand is, or null.
    std::string const* weight_behind(std::string const& operand) const;
    /// A weight that is tied to another tensor of the model is written twice, as `@weight` and as an input without a
    /// name: such inputs are removed from `operands`. `names`: what the terms of `weights` are.
    void drop_tied_inputs(std::vector<std::string>& operands, Arguments const& weights,
                          std::vector<std::string> const& names) const;
    Arguments arguments_of(ParamNode const& node, Inputs& inputs);
};

using GraphMaker = graph_topo::Builder<std::string, std::string, frontend::Node, frontend::Tensor>;

/// The operator of a user that a node of this type means, or null.
std::shared_ptr<frontend::CustomOperator const> find_custom(frontend::CustomOperators const& all,
                                                            std::string_view type);
/// A node of it; files know no versions.
std::shared_ptr<frontend::Operator const> make_custom(std::shared_ptr<frontend::CustomOperator const> definition,
                                                      frontend::Attributes attributes);
/// `term` with entries such as "@0" of a list of words as operands.
Term with_operands(Term term);
/// A literal or list of literals as an attribute, nothing if it cannot be one; flags are integers.
std::optional<frontend::Attribute> attribute_of(Term const& term);

/// The model of a graph whose description is complete; throws its problems, structural ones included.
frontend::Model build_model(GraphMaker maker, SymbolTable symbols, frontend::Problems problems);
/// A shape as written in a file; sizes that are not known get symbols named after `name`.
Shape shape_of(std::string const& name, std::vector<WrittenDim> const& dims, SymbolTable& symbols);
/// A shape that a caller gives to input `name`; throws `InvalidInput` if it is none.
Shape given_shape(std::string const& name, std::vector<InputDim> const& dims, SymbolTable& symbols);
/// Throws `InvalidInput` if a shape is given to something that is no input.
void check_inputs(InputShapes const& shapes, std::vector<std::string> const& inputs);

}  // namespace refactor::pnnx
