#pragma once
#include "frontend/control_flow.h"
#include "frontend/saved.h"
#include "frontend/text.h"
#include "frontend/text_labels.h"
#include "kernel/procedures/image.h"
#include "kernel/procedures/lookup.h"
#include "kernel/procedures/maps.h"
#include "kernel/procedures/select.h"
#include "kernel/procedures/sequence.h"
#include "kernel/procedures/text.h"
#include "kernel/procedures/tfidf.h"

#include <tuple>

/// Procedures that remember the function that made them and its arguments, so that they can be written down.
namespace refactor::frontend {

/// As a maker's arguments are written: values with their elements, compiled graphs with their programs, a device as
/// whether there is one.
class ArgumentWriter {
    computation::GraphWriter& writer_;

public:
    explicit ArgumentWriter(computation::GraphWriter& writer) : writer_(writer) {}
    void operator()(runtime::Value const& value) const;
    void operator()(Compiled const& compiled) const { write(writer_, compiled); }
    void operator()(mem_manager::Device* place) const { writer_.write(place != nullptr); }
    void operator()(kernel::TextLookupInfo const& info) const {
        writer_.write(info.keys), (*this)(info.values), (*this)(info.fallback);
    }
    template <class T>
    void operator()(T const& argument) const {
        writer_.write(argument);
    }
};

class ArgumentReader {
    computation::GraphReader& reader_;
    computation::LoadOptions const& options_;
    mem_manager::Device* place_;  ///< that was compiled for; null: the host

    runtime::Value value() const;

public:
    ArgumentReader(computation::GraphReader& reader, computation::LoadOptions const& options,
                   mem_manager::Device* place)
        : reader_(reader), options_(options), place_(place) {}
    template <class T>
    T read() const {
        if constexpr (std::is_same_v<T, runtime::Value>) {
            return value();
        } else if constexpr (std::is_same_v<T, Compiled>) {
            return read_compiled(reader_, options_);
        } else if constexpr (std::is_same_v<T, mem_manager::Device*>) {
            return reader_.read<bool>() ? place_ : nullptr;
        } else if constexpr (std::is_same_v<T, kernel::TextLookupInfo>) {
            auto keys = reader_.read<kernel::LookupKeys>();
            auto values = value();
            return {std::move(keys), std::move(values), value()};
        } else {
            return reader_.read<T>();
        }
    }
};

class RecordedProcedure : public runtime::ProcedureOrigin {
public:
    virtual void write(computation::GraphWriter&) const = 0;
};

namespace detail {

template <auto kMake>
struct Maker {};

template <auto... kMakes>
struct Makers {
    template <auto kMake>
    static constexpr uint32_t number_of() {
        uint32_t number = 0, found = UINT32_MAX;
        ((std::is_same_v<Maker<kMake>, Maker<kMakes>> ? void(found = number) : void(), ++number), ...);
        return found;
    }
};

/// Files have the numbers of this order.
using AllMakers =
    Makers<kernel::make_identity, kernel::make_squeeze, kernel::make_sequence_empty, kernel::make_sequence_construct,
           kernel::make_sequence_insert, kernel::make_sequence_erase, kernel::make_sequence_at,
           kernel::make_sequence_length, kernel::make_optional_has_element, kernel::make_optional_get_element,
           kernel::make_split_to_sequence, kernel::make_concat_from_sequence, kernel::make_nonzero,
           kernel::make_compress, kernel::make_unique, kernel::make_non_max_suppression, kernel::make_range,
           kernel::make_slice, kernel::make_content_sizes, kernel::make_text_equal, kernel::make_text_concat,
           kernel::make_text_split, kernel::make_text_normalizer, kernel::make_text_cast, kernel::make_text_lookup,
           kernel::make_one_hot_categories, kernel::make_cast_map, kernel::make_dict_vectorizer, kernel::make_zip_map,
           kernel::make_tfidf, kernel::make_image_decode, make_if, make_loop, make_scan, run_text_mover,
           run_text_labels>;

template <auto kMake, class Signature>
class Recorded;
template <auto kMake, class... Parameters>
class Recorded<kMake, ProcedurePtr (*)(Parameters...)> final : public RecordedProcedure {
    static constexpr auto kNumber = AllMakers::number_of<kMake>();
    static_assert(kNumber != UINT32_MAX, "add it to `AllMakers`");

public:
    using Arguments = std::tuple<std::decay_t<Parameters>...>;
    explicit Recorded(Arguments arguments) : arguments_(std::move(arguments)) {}
    Arguments const& arguments() const { return arguments_; }
    void write(computation::GraphWriter& writer) const override {
        writer.write(kNumber);
        std::apply([&](auto const&... each) { (ArgumentWriter(writer)(each), ...); }, arguments_);
    }

private:
    Arguments arguments_;
};

}  // namespace detail

/// Calls `kMake`, and notes with what.
template <auto kMake, class... Given>
ProcedurePtr record(Given&&... given) {
    using Origin = detail::Recorded<kMake, decltype(kMake)>;
    auto origin = std::make_shared<Origin const>(typename Origin::Arguments(std::forward<Given>(given)...));
    auto procedure = std::const_pointer_cast<runtime::Procedure>(std::apply(kMake, origin->arguments()));
    procedure->origin = std::move(origin);
    return procedure;
}

/// The procedure that `RecordedProcedure::write` wrote. Throws `InvalidModel` for what it cannot have written.
ProcedurePtr read_procedure(computation::GraphReader&, ArgumentReader const&);

}  // namespace refactor::frontend
