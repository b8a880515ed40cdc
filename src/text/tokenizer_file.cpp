// SPDX-License-Identifier: Apache-2.0
// Reading tokenizers: tokenizer.json with tokenizer_config.json, or the vocab.txt of BERT.
#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer_state.h"
#include "transom/hub.h"

namespace transom {
namespace {

constexpr std::string_view kRoles[] = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"};

// A token in tokenizer_config.json is a string, or an object with its content.
std::optional<std::string> token_content(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object() && json.contains("content") && json["content"].is_string())
    return json["content"].get<std::string>();
  return std::nullopt;
}

// The tokens of a model, taken out of its JSON.
text::VocabularyEntries take_vocabulary(nlohmann::json& model, const std::string& where) {
  text::VocabularyEntries entries;
  if (!model.is_object() || !model.contains("vocab") || !model["vocab"].is_object()) return entries;
  for (const auto& [token, id] : model["vocab"].items()) {
    if (!id.is_number_integer()) fail("{}: vocab: token {} has no usable id", where, quoted(token));
    entries.emplace_back(token, id.get<int64_t>());
  }
  model.erase("vocab");
  return entries;
}

// vocab.txt as a tokenizer.json that says the same.
std::string json_of_vocabulary(const std::string& vocabulary, const Json& config, const std::string& where) {
  std::map<std::string, int64_t> ids;
  std::string_view rest = vocabulary;
  int64_t next = 0;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string line(rest.substr(0, end));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    ids[line] = next++;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  Json added = Json::array(), special = Json::object();
  const auto role = [&](const char* name, const std::string& otherwise) {
    return config.contains(name) ? token_content(config[name]).value_or(otherwise) : otherwise;
  };
  const std::string cls = role("cls_token", "[CLS]"), sep = role("sep_token", "[SEP]"),
                    unk = role("unk_token", "[UNK]");
  for (const std::string& token : {role("pad_token", "[PAD]"), unk, cls, sep, role("mask_token", "[MASK]")}) {
    if (!ids.contains(token)) fail("{}: lacks the special token {}", where, quoted(token));
    added.push_back({{"id", ids[token]}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  const auto place = [](const char* kind, const std::string& id, int type) {
    return Json{{kind, {{"id", id}, {"type_id", type}}}};
  };
  for (const std::string& token : {cls, sep})
    special[token] = {{"id", token}, {"ids", {ids[token]}}, {"tokens", {token}}};
  const bool lower = text::flag(config, "do_lower_case", true);
  Json normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", text::flag(config, "tokenize_chinese_chars", true)},
                     {"lowercase", lower},
                     {"strip_accents", nullptr}};
  if (config.contains("strip_accents")) normalizer["strip_accents"] = config["strip_accents"];
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", normalizer},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {place("SpecialToken", cls, 0), place("Sequence", "A", 0), place("SpecialToken", sep, 0)}},
        {"pair",
         {place("SpecialToken", cls, 0), place("Sequence", "A", 0), place("SpecialToken", sep, 0),
          place("Sequence", "B", 1), place("SpecialToken", sep, 1)}},
        {"special_tokens", special}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", unk},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100}}}};
  nlohmann::json whole = json;
  whole["model"]["vocab"] = ids;
  return whole.dump(2);
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json,
                               const std::string& where) {
  // Large objects need the sorted map of nlohmann::json; what is left without the vocabulary is small.
  nlohmann::json whole = parse_large_json(tokenizer_json, where);
  if (!whole.is_object()) fail("{}: expected a JSON object", where);
  text::VocabularyEntries vocabulary =
      whole.contains("model") ? take_vocabulary(whole["model"], where) : text::VocabularyEntries();
  const Json json = whole;
  const auto part = [&](const char* name) { return json.contains(name) ? json[name] : Json(); };
  auto state = std::make_shared<State>();
  state->where = where;
  state->normalizer = text::parse_normalizer(part("normalizer"), where);
  state->pre_tokenizer = text::parse_pre_tokenizer(part("pre_tokenizer"), where);
  state->model = text::parse_model(part("model"), std::move(vocabulary), where);
  state->post_processor = text::parse_post_processor(part("post_processor"), where);
  state->decoder = text::parse_decoder(part("decoder"), where);
  state->added = text::AddedTokens(text::parse_added_tokens(part("added_tokens"), where), state->normalizer.get());

  const Json config = config_json.empty() ? Json::object() : parse_json(config_json, "tokenizer_config.json");
  if (!config.is_object()) fail("tokenizer_config.json: expected a JSON object");
  for (const std::string_view role : kRoles) {
    const std::string key = std::string(role) + "_token";
    if (config.contains(key))
      if (const auto token = token_content(config[key])) state->special.emplace(role, *token);
  }
  // Without a configuration the usual names are taken, where the tokenizer has them.
  if (state->special.empty())
    for (const auto& [role, token] : {std::pair<const char*, const char*>{"pad", "[PAD]"},
                                      {"cls", "[CLS]"},
                                      {"sep", "[SEP]"},
                                      {"mask", "[MASK]"},
                                      {"unk", "[UNK]"}})
      if (state->id_of(token) >= 0) state->special.emplace(role, token);
  if (config.contains("model_max_length") && config["model_max_length"].is_number()) {
    const double length = config["model_max_length"].get<double>();
    if (length >= 1 && length < 1e9)
      state->max_length = static_cast<int64_t>(length);  // Transformers writes 1e30 for none
  }
  state->pads_left = config.value("padding_side", Json()) == "left";
  state->truncates_left = config.value("truncation_side", Json()) == "left";
  state->clean_up = text::flag(config, "clean_up_tokenization_spaces", false);
  if (const Json names = config.value("model_input_names", Json()); names.is_array()) {
    state->input_names.clear();
    for (const Json& name : names)
      if (name.is_string()) state->input_names.push_back(name.get<std::string>());
  } else if (const Json name = config.value("tokenizer_class", Json()); name.is_string()) {
    const std::string tokenizer_class = name.get<std::string>();
    if (tokenizer_class.starts_with("DistilBert") || tokenizer_class.find("Roberta") != tokenizer_class.npos)
      state->input_names = {"input_ids", "attention_mask"};
  }
  state->files["tokenizer.json"] = tokenizer_json;
  if (!config_json.empty()) state->files["tokenizer_config.json"] = config_json;
  Tokenizer tokenizer;
  tokenizer.state_ = std::move(state);
  return tokenizer;
}

Tokenizer Tokenizer::from_pretrained(const std::string& name_or_path) {
  const fs::path folder = resolve_tokenizer(name_or_path);
  const std::string config =
      fs::exists(folder / "tokenizer_config.json") ? read_file(folder / "tokenizer_config.json") : "";
  if (fs::exists(folder / "tokenizer.json"))
    return from_json(read_file(folder / "tokenizer.json"), config, (folder / "tokenizer.json").string());
  if (fs::exists(folder / "vocab.txt")) {
    const std::string where = (folder / "vocab.txt").string();
    const Json settings =
        config.empty() ? Json::object() : parse_json(config, (folder / "tokenizer_config.json").string());
    return from_json(json_of_vocabulary(read_file(folder / "vocab.txt"), settings, where), config, where);
  }
  fail("{}: holds no tokenizer: expected tokenizer.json or vocab.txt", folder.string());
}

void Tokenizer::save_pretrained(const std::string& directory) const {
  fs::create_directories(directory);
  for (const auto& [name, contents] : state_->files) write_file(fs::path(directory) / name, contents);
}

}  // namespace transom
