// SPDX-License-Identifier: Apache-2.0
// Making a Tokenizer of its files, and writing them.
#include <algorithm>

#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/json/json_errors.h"
#include "files/config/model_config.h"
#include "files/config/model_type.h"
#include "inputs/text/components/fields.h"
#include "inputs/text/sentencepiece/sentencepiece.h"
#include "inputs/text/slow_tokenizers/ctc_characters.h"
#include "inputs/text/slow_tokenizers/esm.h"
#include "inputs/text/slow_tokenizers/language_classes.h"
#include "inputs/text/slow_tokenizers/marian.h"
#include "inputs/text/slow_tokenizers/speecht5_characters.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_components.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_files.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_options.h"
#include "inputs/text/slow_tokenizers/vits_characters.h"
#include "inputs/text/tokenizer_state.h"
#include "transom/hub.h"

namespace transom {

using namespace text;

namespace {

// The files of a tokenizer, as Transformers names them: those that are read, and others that are kept for whoever reads
// them when the tokenizer is saved. What the first says is overruled by the second.
constexpr const char* kFiles[] = {"special_tokens_map.json",
                                  "tokenizer_config.json",
                                  "tokenizer.json",
                                  "vocab.txt",
                                  "added_tokens.json",
                                  "vocab.json",
                                  "merges.txt",
                                  "sentencepiece.bpe.model",
                                  "spiece.model",
                                  "spm.model",
                                  "spm_char.model",
                                  "tokenizer.model",
                                  "source.spm",
                                  "target.spm",
                                  "target_vocab.json",
                                  "chat_template.jinja",
                                  "chat_template.json"};

constexpr const char* kTemplateFolder = "additional_chat_templates";

// Adds the fields of a file's text to the configuration.
void update(Json& config, std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  require(json.is_object(), "{}: expected an object, found {}", where, json.type_name());
  config.update(json);
}

// The architecture of the model in the folder; empty if its configuration does not tell.
std::string model_type(const fs::path& folder) {
  return has_model_config(folder) ? model_type_of(json_of(read_model_config(folder))) : "";
}

// Where no file names the class of the tokenizer, it is that of the model: it decides what a model is given besides
// ids. For LLaMA and those that took its tokenizer over, Transformers has no class of their own then.
void name_class(Json& fields, const fs::path& folder, const std::string& where) {
  if (!field(fields, "tokenizer_class", where).is_null()) return;
  const std::string type = model_type(folder);
  if (type.empty()) return;
  const std::string family = tokenizer_family(fields, type, where);
  fields["tokenizer_class"] = family.empty() || family == "Llama" ? "TokenizersBackend" : family + "Tokenizer";
}

bool lowers(const Json& normalizer) {
  if (!normalizer.is_object()) return false;
  const Json parts = normalizer.value("normalizers", Json());
  return normalizer.value("type", Json()) == "Lowercase" ||
         (parts.is_array() && std::any_of(parts.begin(), parts.end(), lowers));
}

void lower_first(Json& tokenizer) {
  const Json own = tokenizer.value("normalizer", Json());
  if (lowers(own)) return;
  Json steps = Json::array({{{"type", "Lowercase"}}});
  if (!own.is_null()) steps.push_back(own);
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
}

}  // namespace

void Tokenizer::State::build(const Json& fields, const std::string& where, const std::string& config_where) {
  config = read_tokenizer_config(fields, config_where);
  apply_class_options(fields, *file.rest, config_where);
  apply_language_class(fields, file, config_where);
  if (small_letters) lower_first(*file.rest);
  const Json& json = *file.rest;
  parts.normalizer = make_normalizer(field(json, "normalizer", where), where + "normalizer");
  parts.pre_tokenizer = make_pre_tokenizer(field(json, "pre_tokenizer", where), where + "pre_tokenizer");
  parts.model = make_token_model(file, where + "model");
  file.vocabulary->seal();
  parts.post_processor = make_post_processor(field(json, "post_processor", where), where + "post_processor");
  parts.decoder = make_decoder(field(json, "decoder", where), where + "decoder");
  byte_pairs = string_field(field(json, "model", where), "type", where, "") == "BPE" || !file.merges.empty();
  if (config.suffix_ends_word)
    end_of_word_suffix = string_field(field(json, "model", where), "end_of_word_suffix", where, "");
  std::vector<AddedToken> added = read_added_tokens(field(json, "added_tokens", where), where + "added_tokens");
  add_special_tokens(config, *file.vocabulary, added);
  added_tokens = std::make_unique<AddedTokens>(std::move(added), parts.normalizer.get(), *file.vocabulary);
}

// Marian's rules are those of its class written in Python: a pair or a special token is treated otherwise than by the
// tokenizers library.
void Tokenizer::State::build_marian(const Json& fields, const std::string& folder, const std::string& config_where) {
  config = read_tokenizer_config(fields, config_where);
  if (!config.model_max_length && !fields.contains("model_max_length")) config.model_max_length = 512;
  has_offsets = false;
  const auto pieces = [&](const char* name) {
    const std::string* bytes = find_file(name);
    require(bytes != nullptr, "{}{}: expected this file, found none", folder, name);
    return std::make_shared<const SentencePiece>(read_sentencepiece_model(*bytes, folder + name), folder + name);
  };
  const bool separate = bool_field(fields, "separate_vocabs", config_where, false);
  if (separate) {
    const std::string* text = find_file("target_vocab.json");
    require(text != nullptr, "{}target_vocab.json: separate_vocabs asks for this file, found none", folder);
    target_vocabulary = std::move(read_vocabulary_json(*text, folder + "target_vocab.json").vocabulary);
  }
  std::vector<AddedToken> added;
  add_special_tokens(config, *file.vocabulary, added);
  added_tokens = std::make_unique<AddedTokens>(std::move(added), nullptr, *file.vocabulary);
  for (const auto& [role, token] : config.special_tokens) added_tokens->add_special(file.vocabulary->find(token));
  const auto source = pieces("source.spm"), target = pieces("target.spm");
  const Vocabulary& written = decoding_vocabulary();
  parts = make_marian_components(source, separate ? target : source, *file.vocabulary, config, folder + "vocab.json");
  target_parts = make_marian_components(target, target, written, config, folder + "vocab.json");
}

void Tokenizer::State::build_ctc(const Json& fields, const std::string& config_where) {
  config = read_tokenizer_config(fields, config_where);
  has_offsets = false;
  std::vector<AddedToken> added = long_tokens(*file.vocabulary);
  add_special_tokens(config, *file.vocabulary, added);
  added_tokens = std::make_unique<AddedTokens>(std::move(added), nullptr, *file.vocabulary);
  for (const auto& [role, token] : config.special_tokens) added_tokens->add_special(file.vocabulary->find(token));
  kept_special = config.special_tokens.at("word_delimiter");
  parts = make_ctc_components(fields, config, *file.vocabulary, config_where);
}

// Special tokens are looked for in the text as it is normalised, and may be single letters.
void Tokenizer::State::build_vits(const Json& fields, const std::string& config_where) {
  config = read_tokenizer_config(fields, config_where);
  has_offsets = false;
  std::vector<AddedToken> added;
  add_special_tokens(config, *file.vocabulary, added);
  for (AddedToken& token : added) token.normalized = true;
  added_tokens = std::make_unique<AddedTokens>(std::move(added), nullptr, *file.vocabulary);
  for (const auto& [role, token] : config.special_tokens) added_tokens->add_special(file.vocabulary->find(token));
  parts = make_vits_components(fields, config, *file.vocabulary, config_where);
}

void Tokenizer::State::build_speecht5(const Json& fields, const std::string& path, const std::string& config_where) {
  const SentencePieceModel model = read_sentencepiece_model(*find_file("spm_char.model"), path);
  file = {};
  for (size_t id = 0; id < model.pieces.size(); ++id)
    file.vocabulary->insert(model.pieces[id].text, static_cast<int64_t>(id));
  config = read_tokenizer_config(fields, config_where);
  has_offsets = false;
  std::vector<AddedToken> added = read_added_tokens(named_tokens(fields, *file.vocabulary, config_where), config_where);
  for (const AddedToken& token : added)
    if (file.vocabulary->find(token.content) < 0) file.vocabulary->insert(token.content, token.id);
  file.vocabulary->seal();
  for (AddedToken& token : added) token.normalized = false;  // they are looked for in the text as it is
  added_tokens = std::make_unique<AddedTokens>(std::move(added), nullptr, *file.vocabulary);
  parts =
      make_speecht5_components(std::make_shared<const SentencePiece>(model, path),
                               bool_field(fields, "normalize", config_where, false), *file.vocabulary, config, path);
}

// chat_template.jinja, and others in a folder, overrule those of the configuration. chat_template.json, which
// processors of Transformers 4 wrote, overrules all where the directory has a processor, as there; elsewhere it is the
// last.
void Tokenizer::State::read_template_files(const fs::path& folder) {
  ChatTemplates found;
  if (const std::string* text = find_file("chat_template.jinja")) found["default"] = *text;
  if (directory_exists(folder / kTemplateFolder)) {
    std::vector<fs::path> paths;
    for (const fs::path& path : list_directory(folder / kTemplateFolder))
      if (path.extension() == ".jinja" && file_exists(path)) paths.push_back(path);
    for (const fs::path& path : paths) {
      files.emplace_back(std::string(kTemplateFolder) + "/" + path.filename().string(), read_file(path));
      found[path.stem().string()] = files.back().second;
    }
  }
  const bool has_processor =
      file_exists(folder / "preprocessor_config.json") || file_exists(folder / "processor_config.json");
  if (const std::string* text = find_file("chat_template.json");
      text && (has_processor || (found.empty() && chat_templates.empty()))) {
    const std::string where = (folder / "chat_template.json").string();
    found["default"] = string_field(parse_json(*text, where), "chat_template", where);
  }
  if (!found.empty()) chat_templates = std::move(found);
}

// The files that a directory has decide, then the class. `name` is the directory in errors.
void Tokenizer::State::read(const fs::path& folder, Json& fields, const std::string& name) {
  const std::string config_where = (folder / "tokenizer_config.json").string(), prefix = (folder / "").string();
  const auto path = [&](const char* file_name) { return (folder / file_name).string(); };
  const std::string *json = find_file("tokenizer.json"), *words = find_file("vocab.txt"),
                    *vocabulary = find_file("vocab.json"), *merges = find_file("merges.txt");
  name_class(fields, folder, config_where);
  std::string family = tokenizer_family(fields, "", config_where);
  if (family.empty() && json == nullptr) family = tokenizer_family(fields, model_type(folder), config_where);
  const bool sources = vocabulary != nullptr && find_file("source.spm") != nullptr;
  if (sources && (family == "Marian" || (family.empty() && json == nullptr))) {
    name_special_tokens("Marian", fields);
    file = read_vocabulary_json(*vocabulary, path("vocab.json"));
    return build_marian(fields, prefix, config_where);
  }
  if (family == "Wav2Vec2CTC" && vocabulary != nullptr) {
    name_special_tokens(family, fields);
    file = read_ctc_vocabulary(*vocabulary, fields, path("vocab.json"));
    return build_ctc(fields, config_where);
  }
  if (family == "Vits" && vocabulary != nullptr) {
    name_special_tokens(family, fields);
    file = read_vocabulary_json(*vocabulary, path("vocab.json"));
    return build_vits(fields, config_where);
  }
  if (family == "SpeechT5" && find_file("spm_char.model") != nullptr) {
    name_special_tokens(family, fields);
    if (const std::string* added = find_file("added_tokens.json"))
      fields["added_tokens.json"] = parse_json(*added, path("added_tokens.json"));
    return build_speecht5(fields, path("spm_char.model"), config_where);
  }
  if (json != nullptr) {
    if (const std::string* added = find_file("added_tokens.json"))
      fields["added_tokens.json"] = parse_json(*added, path("added_tokens.json"));
    file = read_tokenizer_json(*json, path("tokenizer.json"));
    return build(fields, path("tokenizer.json: "), config_where);
  }
  if (words != nullptr && family == "Esm") {
    name_special_tokens(family, fields);
    file = read_esm_vocabulary(*words, fields, path("vocab.txt"));
    has_offsets = false;
    return build(fields, path("vocab.txt: "), config_where);
  }
  if (words != nullptr) {
    name_bert_tokens(fields, config_where);
    if (const std::string* added = find_file("added_tokens.json"))
      fields["added_tokens.json"] = parse_json(*added, path("added_tokens.json"));
    file = read_bert_vocabulary(*words, fields, path("vocab.txt"));
    return build(fields, path("vocab.txt: "), config_where);
  }
  for (const char* unread : {"Nllb", "MBart50", "Pegasus", "M2M100"})
    if (family == unread)
      fail(ErrorKind::kUnsupported,
           "{}: {}Tokenizer: expected tokenizer.json, found none; its older files are not read (save_pretrained of "
           "Transformers writes it)",
           name, family);
  name_special_tokens(family, fields);
  if (const std::string* added = find_file("added_tokens.json"))
    fields["added_tokens.json"] = parse_json(*added, path("added_tokens.json"));
  for (const char* pieces : {"spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "spm.model"}) {
    const std::string* bytes = find_file(pieces);
    if (bytes == nullptr) continue;
    file = read_sentencepiece_file(family, read_sentencepiece_model(*bytes, path(pieces)), fields, path(pieces));
    return build(fields, path(pieces) + ": ", config_where);
  }
  require(vocabulary != nullptr && merges != nullptr,
          "{}: expected tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece model, found none",
          name);
  file = read_byte_pair_files(family, *vocabulary, *merges, fields, path("vocab.json"));
  build(fields, path("vocab.json: "), config_where);
}

// An option that overrules the configuration, also in the copy that will be saved.
void Tokenizer::State::set_option(Json& fields, const char* name, const Json& value) {
  fields[name] = value;
  Json own = Json::object();
  for (const auto& [file_name, content] : files)
    if (file_name == "tokenizer_config.json") own = parse_json(content, file_name);
  own[name] = value;
  std::erase_if(files, [](const auto& known) { return known.first == "tokenizer_config.json"; });
  files.emplace_back("tokenizer_config.json", dump_json(own, 2) + "\n");
}

Tokenizer Tokenizer::from_pretrained(const std::string& directory, const TokenizerOptions& options) {
  const fs::path folder(resolve_tokenizer(directory));
  auto state = std::make_shared<State>();
  try {
    Json config = Json::object();
    for (const char* name : kFiles)
      if (file_exists(folder / name)) state->files.emplace_back(name, read_file(folder / name));
    if (const std::string* text = state->find_file("tokenizer_config.json"))
      update(config, *text, (folder / "tokenizer_config.json").string());
    // Written beside it by older libraries, which read it last; where the tokens stand with their ids, it is not read.
    if (const std::string* text = state->find_file("special_tokens_map.json");
        text && !config.contains("added_tokens_decoder"))
      update(config, *text, (folder / "special_tokens_map.json").string());
    state->small_letters = options.do_lower_case;
    if (options.add_prefix_space) state->set_option(config, "add_prefix_space", *options.add_prefix_space);
    state->chat_templates = read_chat_templates(config, (folder / "tokenizer_config.json").string());
    state->read_template_files(folder);
    state->read(folder, config, quoted(directory, 200));
  } catch (const Json::exception& error) {
    fail("{}: {}", quoted(directory, 200), json_reason(error));
  }
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json,
                               const std::string& where) {
  auto state = std::make_shared<State>();
  try {
    Json config = Json::object();
    state->files.emplace_back("tokenizer.json", tokenizer_json);
    if (!config_json.empty()) {
      state->files.emplace_back("tokenizer_config.json", config_json);
      update(config, config_json, "tokenizer_config.json");
    }
    state->file = read_tokenizer_json(tokenizer_json, where);
    state->chat_templates = read_chat_templates(config, "tokenizer_config.json");
    state->build(config, where + ": ", "tokenizer_config.json");
  } catch (const Json::exception& error) {
    fail("{}: {}", where, json_reason(error));
  }
  return Tokenizer(std::move(state));
}

void Tokenizer::save_pretrained(const std::string& directory) const {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail("{}: cannot make the directory: {}", quoted(directory, 200), error.message());
  for (const auto& [name, content] : state_->files) {
    if (name.starts_with(kTemplateFolder)) fs::create_directories(fs::path(directory) / kTemplateFolder, error);
    write_file(fs::path(directory) / name, content);
  }
}

}  // namespace transom
