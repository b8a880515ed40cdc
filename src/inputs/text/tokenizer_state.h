// SPDX-License-Identifier: Apache-2.0
// What a Tokenizer is made of.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json_fwd.h"
#include "inputs/text/chat_template.h"
#include "inputs/text/components/added_tokens.h"
#include "inputs/text/components/components.h"
#include "inputs/text/tokenizer_config.h"
#include "inputs/text/tokenizer_file.h"
#include "transom/tokenizer.h"

namespace transom {

struct Tokenizer::State {
  std::vector<std::pair<std::string, std::string>> files;  // name and content, for save_pretrained
  text::TokenizerFile file;
  text::TokenizerConfig config;
  text::Components parts;
  // Where labels are cut by other rules than inputs (Marian's target.spm): the components of EncodeOptions::target,
  // which may have a vocabulary of their own. Their model is null otherwise.
  text::Components target_parts;
  std::unique_ptr<text::Vocabulary> target_vocabulary;
  std::unique_ptr<text::AddedTokens> added_tokens;
  text::ChatTemplates chat_templates;
  bool byte_pairs = false;         // cleaning up would spoil their text
  std::string end_of_word_suffix;  // decoded as a space; empty: none
  std::string kept_special;        // a special token that decode() never passes over; empty: none
  bool has_offsets = true;
  bool small_letters = false;  // TokenizerOptions::do_lower_case

  const std::string* find_file(std::string_view name) const {
    for (const auto& [known, content] : files)
      if (known == name) return &content;
    return nullptr;
  }
  // From the files of a folder: `fields` is its configuration, which gets the names that its class gives by default.
  void read(const std::filesystem::path& folder, Json& fields, const std::string& name);
  void read_template_files(const std::filesystem::path& folder);
  void set_option(Json& fields, const char* name, const Json& value);
  // Makes the components once `file` is read. `where` and `config_where` name the files in errors.
  void build(const Json& fields, const std::string& where, const std::string& config_where);
  void build_marian(const Json& fields, const std::string& folder, const std::string& config_where);
  void build_vits(const Json& fields, const std::string& config_where);
  void build_speecht5(const Json& fields, const std::string& path, const std::string& config_where);
  void build_ctc(const Json& fields, const std::string& config_where);
  const text::Components& components(const EncodeOptions& options) const {
    return options.target && target_parts.model ? target_parts : parts;
  }
  const text::Vocabulary& vocabulary(const EncodeOptions& options) const {
    return options.target && target_vocabulary ? *target_vocabulary : *file.vocabulary;
  }
  // The vocabulary of what a model writes.
  const text::Vocabulary& decoding_vocabulary() const {
    return target_vocabulary ? *target_vocabulary : *file.vocabulary;
  }
  Encoding encode_one(std::string_view text, int64_t sequence, const EncodeOptions& options) const;
  void name_tokens(Encoding& encoding, const text::Vocabulary& vocabulary) const;
  // A pair may be empty here.
  Encoding encode(std::string_view text, std::optional<std::string_view> pair, const EncodeOptions& options) const;
  Encoding finish(std::vector<Encoding> parts, const EncodeOptions& options) const;
  void pad(std::span<Encoding> batch, const EncodeOptions& options) const;
  std::optional<int64_t> maximum_length(const EncodeOptions& options) const {
    return options.max_length ? options.max_length : config.model_max_length;
  }
};

}  // namespace transom
