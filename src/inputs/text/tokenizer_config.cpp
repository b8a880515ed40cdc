// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include "files/config/known_keys.h"
#include "inputs/text/components/fields.h"

namespace transom::text {
namespace {

// "[CLS]", or {"content": "[CLS]", ...} in older files.
std::string token_text(const Json& json, const std::string& where) {
  if (json.is_string()) return json.get<std::string>();
  return string_field(json, "content", where);
}

Side side_field(const Json& json, std::string_view key, const std::string& where, const char* otherwise = "right") {
  const std::string side = string_field(json, key, where, otherwise);
  require(side == "right" || side == "left", "{}.{}: expected right or left, found {}", where, key, quoted(side));
  return side == "left" ? Side::kLeft : Side::kRight;
}

// The classes that give token type ids in Transformers 5.
bool gives_type_ids(std::string_view tokenizer_class) {
  constexpr std::string_view kNames[] = {"Bert",     "ConvBert",   "Electra", "MobileBert", "SqueezeBert",
                                         "LayoutLM", "LayoutLMv2", "Lxmert",  "MarkupLM",   "DPRContextEncoder",
                                         "Deberta",  "DebertaV2",  "Canine",  "Tapas",      "DPRQuestionEncoder"};
  for (const std::string_view suffix : {"Fast", "Tokenizer"})
    if (tokenizer_class.ends_with(suffix)) tokenizer_class.remove_suffix(suffix.size());
  return std::ranges::count(kNames, tokenizer_class) > 0;
}

constexpr KnownKey kTokenizerKeys[] = {
    // Read here or by the class of the tokenizer.
    {"tokenizer_class"},
    {"additional_special_tokens"},
    {"extra_special_tokens"},
    {"added_tokens_decoder"},
    {"model_max_length"},
    {"padding_side"},
    {"truncation_side"},
    {"clean_up_tokenization_spaces"},
    {"model_input_names"},
    {"chat_template"},
    {"do_lower_case"},
    {"strip_accents"},
    {"tokenize_chinese_chars"},
    {"add_prefix_space"},
    {"legacy"},
    {"sp_model_kwargs"},
    {"separate_vocabs"},
    {"keep_accents"},
    {"replace_word_delimiter_char"},
    {"add_blank"},
    {"is_uroman"},
    {"phonemize"},
    {"target_lang"},
    {"source_lang"},
    {"language"},
    {"task"},
    {"predict_timestamps"},
    {"extra_ids"},
    {"do_normalize"},
    {"added_tokens.json"},
    {"remove_space"},
    {"vocab_type"},
    {"split_by_punct"},
    // Without effect, as in Transformers: the rules stand in tokenizer.json, or the key is a remark.
    {"add_bos_token"},
    {"add_eos_token"},
    {"add_sep_token"},
    {"add_dummy_prefix"},
    {"add_dummy_prefix_space"},
    {"trim_offsets"},
    {"errors"},
    {"backend"},
    {"is_local"},
    {"local_files_only"},
    {"from_slow"},
    {"use_fast"},
    {"use_default_system_prompt"},
    {"spaces_between_special_tokens"},
    {"do_basic_tokenize"},
    {"never_split"},
    {"name_or_path"},
    {"special_tokens_map_file"},
    {"tokenizer_file"},
    {"vocab_file"},
    {"merges_file"},
    {"auto_map"},
    {"processor_class"},
    {"image_processor_class"},
    {"feature_extractor_type"},
    {"model_type"},
    {"transformers_version"},
    {"max_length"},
    {"max_len"},
    {"max_len_single_sentence"},
    {"stride"},
    {"truncation"},
    {"truncation_strategy"},
    {"padding"},
    {"padding_strategy"},
    {"pad_to_multiple_of"},
    {"pad_token_type_id"},
    {"pad_id"},
    {"bos_id"},
    {"eos_id"},
    {"unk_id"},
    {"sep_id"},
    {"model_specific_special_tokens"},
    {"verbose"},
    {"trust_remote_code"},
    {"fast"},
    {"unsloth_version"},
    {"response_schema"},
    {"init_inputs"},
    {"config_tokenizer_class"},
    {"wordpieces_prefix"},
    {"continuing_subword_prefix"},
    {"end_of_word_suffix"},
    {"clean_text"},
    {"handle_chinese_chars"},
    {"fuse_unk"},
    {"byte_fallback"},
    {"normalization"},
    {"normalize"},
    {"lang_codes"},
    {"language_codes"},
    {"src_lang"},
    {"legacy_behaviour"},
    {"num_madeup_words"},
    {"mask_token_sent"},
    {"offset"},
    {"tgt_lang"},
    {"phone_delimiter_token"},
    {"return_attention_mask"},
    {"only_label_first_subword"},
    {"cls_token_box"},
    {"pad_token_box"},
    {"sep_token_box"},
    {"pad_token_label"},
    {"apply_ocr"},
    {"entity_vocab_file"},
    {"bpe_dropout", "0"},
    {"dropout", "0"},
    {"revision"},
    {"device_map"},
    {"torch_dtype"},
    {"dtype"},
    {"vocab_size"},
    {"bos_token_id"},
    {"eos_token_id"},
    {"pad_token_id"},
    {"tokenizer_type"},
    {"add_special_tokens"},
    // Refused: special tokens would be cut as text.
    {"split_special_tokens", "false"}};

void check_tokenizer_keys(const Json& json, const std::string& where) {
  check_known_keys(json, where, kTokenizerKeys, [](const std::string& key) { return key.ends_with("_token"); });
}

// {"image_token": "<image>"}: special tokens that chat templates see by these names.
void add_named_tokens(const Json& tokens, const std::string& where, TokenizerConfig& config) {
  constexpr std::string_view kSuffix = "_token";
  for (const auto& [key, value] : tokens.items()) {
    const std::string token = token_text(value, where + "." + key);
    if (key.ends_with(kSuffix)) config.special_tokens[key.substr(0, key.size() - kSuffix.size())] = token;
    else config.additional_special_tokens.push_back(token);
  }
}

// {"<token>": 42}: what libraries before tokenizer.json wrote beside the vocabulary.
void read_older_tokens(const Json& added, const std::string& where, TokenizerConfig& config) {
  require(added.is_object(), "{}: added_tokens.json: expected an object, found {}", where, added.type_name());
  for (const auto& [content, id] : added.items()) {
    require(id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() <= Vocabulary::kMaximumId,
            "{}: added_tokens.json: {}: expected an id, found {}", where, quoted(content), quoted(dump_json(id)));
    const auto named = [&, &text = content](const auto& role) { return role.second == text; };
    const auto& others = config.additional_special_tokens;
    const bool special = std::any_of(config.special_tokens.begin(), config.special_tokens.end(), named) ||
                         std::find(others.begin(), others.end(), content) != others.end();
    config.older_added_tokens.push_back({id.get<int64_t>(), content, false, false, false, !special, special});
  }
  std::stable_sort(config.older_added_tokens.begin(), config.older_added_tokens.end(),
                   [](const AddedToken& x, const AddedToken& y) { return x.id < y.id; });
}

}  // namespace

TokenizerConfig read_tokenizer_config(const Json& json, const std::string& where) {
  check_tokenizer_keys(json, where);
  TokenizerConfig config;
  for (const char* role : {"pad", "cls", "sep", "mask", "unk", "bos", "eos"}) {
    const Json& value = field(json, std::string(role) + "_token", where);
    if (!value.is_null()) config.special_tokens[role] = token_text(value, where + "." + role + "_token");
  }
  // Other roles that a class has: "image_token", "word_delimiter_token".
  for (const auto& [key, value] : json.items()) {
    constexpr std::string_view kSuffix = "_token";
    const bool token = value.is_string() || (value.is_object() && value.contains("content"));
    if (!token || !key.ends_with(kSuffix)) continue;
    config.special_tokens[key.substr(0, key.size() - kSuffix.size())] = token_text(value, where + "." + key);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const Json& list = field(json, key, where);
    if (list.is_object()) add_named_tokens(list, where + "." + key, config);
    if (!list.is_array()) continue;
    for (const Json& token : list) config.additional_special_tokens.push_back(token_text(token, where + "." + key));
  }
  if (const Json& named = field(json, "model_specific_special_tokens", where); named.is_object())
    add_named_tokens(named, where + ".model_specific_special_tokens", config);
  if (const Json& decoder = field(json, "added_tokens_decoder", where); decoder.is_object()) {
    const std::string at = where + ".added_tokens_decoder";
    for (const auto& [key, value] : decoder.items()) {
      int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      require(error == std::errc() && end == key.data() + key.size() && id >= 0, "{}: expected an id, found {}", at,
              quoted(key));
      require(value.is_object(), "{}.{}: expected an object, found {}", at, quoted(key), value.type_name());
      Json item = value;
      item["id"] = id;
      for (AddedToken& token : read_added_tokens(Json::array({item}), at)) config.added_tokens_decoder.push_back(token);
    }
  }
  const Json& older = field(json, "added_tokens.json", where);
  if (!older.is_null() && !json.contains("added_tokens_decoder")) read_older_tokens(older, where, config);
  const Json& maximum = field(json, "model_max_length", where);
  if (maximum.is_number() && maximum.get<double>() < 1e9 && maximum.get<double>() >= 0) {
    config.model_max_length = static_cast<int64_t>(maximum.get<double>());
  }
  const std::string tokenizer_class = string_field(json, "tokenizer_class", where, "");
  const bool pads_left = tokenizer_class.starts_with("Gemma") || tokenizer_class.starts_with("Llama");
  config.padding_side = side_field(json, "padding_side", where, pads_left ? "left" : "right");
  config.truncation_side = side_field(json, "truncation_side", where);
  config.clean_up = bool_field(json, "clean_up_tokenization_spaces", where, false);
  config.suffix_ends_word = tokenizer_class.starts_with("CLIPTokenizer");
  if (const Json& names = field(json, "model_input_names", where); names.is_array()) {
    for (const Json& name : names) {
      require(name.is_string(), "{}.model_input_names: expected strings, found {}", where, name.type_name());
      config.model_input_names.push_back(name.get<std::string>());
    }
  } else if (gives_type_ids(string_field(json, "tokenizer_class", where, "BertTokenizer"))) {
    config.model_input_names = {"input_ids", "token_type_ids", "attention_mask"};
  } else {
    config.model_input_names = {"input_ids", "attention_mask"};
  }
  return config;
}

void add_special_tokens(const TokenizerConfig& config, const Vocabulary& vocabulary, std::vector<AddedToken>& tokens) {
  const auto known = [&](std::string_view content) {
    return std::any_of(tokens.begin(), tokens.end(), [&](const AddedToken& token) { return token.content == content; });
  };
  for (const AddedToken& token : config.added_tokens_decoder) {
    if (!known(token.content)) tokens.push_back(token);
  }
  int64_t next = vocabulary.size();
  for (const AddedToken& token : tokens) next = std::max(next, token.id + 1);
  // As in Transformers a token of tokenizer.json takes the place of one with its id, and the ids of the others follow
  // from how many tokens there are, whatever the file says.
  const size_t own = tokens.size();
  for (AddedToken token : config.older_added_tokens) {
    const auto taken = [&](const AddedToken& other) { return other.id == token.id; };
    if (known(token.content) || std::any_of(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(own), taken))
      continue;
    const int64_t id = vocabulary.find(token.content);
    token.id = id >= 0 ? id : next++;
    tokens.push_back(token);
  }
  const auto add = [&](const std::string& content) {
    if (content.empty() || known(content)) return;
    const int64_t id = vocabulary.find(content);
    tokens.push_back({id >= 0 ? id : next++, content, false, false, false, false, true});
  };
  constexpr const char* kRoles[] = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"};  // in the order of their ids
  for (const char* role : kRoles)
    if (const auto found = config.special_tokens.find(role); found != config.special_tokens.end()) add(found->second);
  for (const auto& [role, content] : config.special_tokens) add(content);
  for (const std::string& content : config.additional_special_tokens) add(content);
}

}  // namespace transom::text
