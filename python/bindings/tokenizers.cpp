// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "transom/tokenizer.h"

#include "bindings.h"
#include "interrupts.h"
#include "transom/error.h"

namespace transom::python {
namespace {

Truncation truncation_of(const std::string& name) {
  if (name == "longest_first") return Truncation::kLongestFirst;
  if (name == "only_first") return Truncation::kOnlyFirst;
  if (name == "only_second") return Truncation::kOnlySecond;
  return Truncation::kNone;
}

std::optional<Side> side_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return *name == "left" ? Side::kLeft : Side::kRight;
}

// The keyword arguments of all three kinds of encoding.
struct Keywords {
  EncodeOptions options;
  static EncodeOptions of(bool add_special_tokens, const std::string& truncation,
                          const std::optional<int64_t>& max_length, int64_t stride, bool overflowing,
                          const std::optional<std::string>& truncation_side, bool target) {
    return {.add_special_tokens = add_special_tokens,
            .truncation = truncation_of(truncation),
            .max_length = max_length,
            .stride = stride,
            .return_overflowing_tokens = overflowing,
            .truncation_side = side_of(truncation_side),
            .target = target};
  }
};

std::string side_name(Side side) { return side == Side::kLeft ? "left" : "right"; }

}  // namespace

void bind_tokenizers(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<EncodeOptions>(module, "EncodeOptions");
  module.def("encode_options", Keywords::of, "add_special_tokens"_a, "truncation"_a, "max_length"_a.none(), "stride"_a,
             "overflowing"_a, "truncation_side"_a.none(), "target"_a);

  nb::class_<Encoding>(module, "Encoding", "The tokens of one text or pair.")
      .def_ro("ids", &Encoding::ids)
      .def_ro("type_ids", &Encoding::type_ids)
      .def_ro("attention_mask", &Encoding::attention_mask)
      .def_ro("special_tokens_mask", &Encoding::special_tokens_mask)
      .def_ro("offsets", &Encoding::offsets)
      .def_ro("tokens", &Encoding::tokens)
      .def_ro("overflowing", &Encoding::overflowing)
      .def_ro("word_ids", &Encoding::word_ids)          // -1: none
      .def_ro("sequence_ids", &Encoding::sequence_ids)  // -1: none
      .def("__len__", &Encoding::size);

  nb::class_<Tokenizer>(module, "Tokenizer")
      .def_static(
          "from_pretrained",
          [](const std::string& directory, const std::optional<bool>& add_prefix_space) {
            return compute(
                [&] { return Tokenizer::from_pretrained(directory, {.add_prefix_space = add_prefix_space}); });
          },
          "directory"_a, "add_prefix_space"_a = nb::none())
      .def("encode_batch",
           [](const Tokenizer& tokenizer, const std::vector<std::string>& texts, const std::vector<std::string>& pairs,
              const EncodeOptions& options) {
             return compute([&] { return tokenizer.encode_batch(texts, pairs, options); });
           })
      .def("encode_words",
           [](const Tokenizer& tokenizer, const std::vector<std::vector<std::string>>& rows,
              const EncodeOptions& options) {
             return compute([&] {
               std::vector<Encoding> encodings;
               for (const auto& words : rows) encodings.push_back(tokenizer.encode_words(words, options));
               return encodings;
             });
           })
      .def(
          "decode",
          [](const Tokenizer& tokenizer, const std::vector<int64_t>& ids, bool skip_special_tokens,
             const std::optional<bool>& clean_up) { return tokenizer.decode(ids, skip_special_tokens, clean_up); },
          "ids"_a, "skip_special_tokens"_a, "clean_up"_a.none())
      .def("apply_chat_template",
           [](const Tokenizer& tokenizer, const std::string& messages, bool add_generation_prompt,
              bool continue_final_message, const std::string& chat_template, const std::string& tools,
              const std::string& documents, const std::string& variables) {
             return tokenizer.apply_chat_template(messages, {.add_generation_prompt = add_generation_prompt,
                                                             .continue_final_message = continue_final_message,
                                                             .chat_template = chat_template,
                                                             .tools = tools,
                                                             .documents = documents,
                                                             .variables = variables});
           })
      .def("has_chat_template", &Tokenizer::has_chat_template)
      .def("token_to_id", [](const Tokenizer& t, const std::string& token) { return t.token_to_id(token); })
      .def("id_to_token", &Tokenizer::id_to_token)
      .def("vocab_size", &Tokenizer::vocab_size)
      .def("special_token", [](const Tokenizer& t, const std::string& role) { return t.special_token(role); })
      .def("special_token_id", [](const Tokenizer& t, const std::string& role) { return t.special_token_id(role); })
      .def("all_special_ids", &Tokenizer::all_special_ids)
      .def("model_max_length", &Tokenizer::model_max_length)
      .def("model_input_names", [](const Tokenizer& t) { return t.model_input_names(); })
      .def("has_offsets", &Tokenizer::has_offsets)
      .def("padding_side", [](const Tokenizer& t) { return side_name(t.padding_side()); })
      .def("truncation_side", [](const Tokenizer& t) { return side_name(t.truncation_side()); })
      .def("save_pretrained", &Tokenizer::save_pretrained);
}

}  // namespace transom::python
