// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>

#include <algorithm>

#include "inputs/text/components/fields.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_components.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_files.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

using Scored = std::vector<std::pair<std::string, double>>;

// The 25 languages of mBART, in the order of their ids.
constexpr const char* kMBartLanguages[] = {
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX", "kk_KZ",
    "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN", "zh_CN"};

std::string to_base64(std::string_view bytes) {
  require(bytes.size() < (size_t{1} << 27), "precompiled_charsmap: expected less than 128 MiB, found {}", bytes.size());
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

Json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json metaspace(const char* scheme, bool split = true) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
}

Json sequence(const char* list, Json parts) { return {{"type", "Sequence"}, {list, std::move(parts)}}; }

// Every way to join two pieces to a third, by the third's id.
void add_merges(const SentencePieceModel& model, TokenizerFile& file) {
  constexpr size_t kLongest = 4096;  // of pieces that are joined, in bytes: a longer one would take too long
  for (const auto& [text, score, type] : model.pieces) {
    if (text.size() > kLongest) continue;
    const std::string_view piece = text;
    for (size_t cut = 0; cut < piece.size();) {
      next_character(piece, cut);
      if (cut >= piece.size()) break;
      if (file.vocabulary->find(piece.substr(0, cut)) < 0 || file.vocabulary->find(piece.substr(cut)) < 0) continue;
      file.merges.emplace_back(piece.substr(0, cut), piece.substr(cut));
    }
  }
}

// Control and user-defined pieces become added tokens. What the class adds follows them.
void add_pieces(const SentencePieceModel& model, const Json& config, const std::string& where, TokenizerFile& file,
                const std::vector<std::string>& more) {
  Json extended = config;
  Json& list = extended["additional_special_tokens"];
  if (!list.is_array()) list = Json::array();
  for (const auto& piece : model.pieces) {
    const bool control = piece.type == SentencePieceModel::PieceType::kControl;
    if (!control && piece.type != SentencePieceModel::PieceType::kUserDefined) continue;
    list.push_back({{"content", piece.text}, {"special", control}, {"normalized", false}});
  }
  for (const std::string& token : more) list.push_back(token);
  (*file.rest)["added_tokens"] = named_tokens(extended, *file.vocabulary, where);
}

}  // namespace

TokenizerFile read_sentencepiece_file(const std::string& family, const SentencePieceModel& model, const Json& config,
                                      const std::string& where) {
  TokenizerFile file;
  *file.rest = Json::object();
  Json& rest = *file.rest;
  const auto token = [&](const char* role) {
    const Json& value = field(config, role, where);
    return value.is_string() ? value.get<std::string>() : string_field(value, "content", where + ": " + role);
  };
  std::vector<std::string> more;
  const bool llama = family == "Llama", gemma = family == "Gemma";
  const bool known = llama || gemma || family == "T5" || family == "Albert" || family == "Camembert" ||
                     family == "XLMRoberta" || family == "MBart" || family == "DebertaV2";
  if (llama || gemma || (!known && model.kind == SentencePieceModel::Kind::kBytePairs)) {
    for (size_t id = 0; id < model.pieces.size(); ++id)
      file.vocabulary->insert(model.pieces[id].text, static_cast<int64_t>(id));
    add_merges(model, file);
    rest["model"] = {{"type", "BPE"}, {"fuse_unk", true}, {"byte_fallback", known || model.byte_fallback}};
    if (!llama) rest["model"]["unk_token"] = gemma ? token("unk_token") : model.unknown_piece;
  } else {
    Scored pieces;
    for (const auto& [text, score, type] : model.pieces) pieces.emplace_back(text, score);
    const auto without_first = [&](size_t count, const std::vector<std::string>& first) {
      pieces.erase(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(std::min(count, pieces.size())));
      Scored front;
      for (const std::string& text : first) front.emplace_back(text, text == "<unk>NOTUSED" ? -100 : 0);
      pieces.insert(pieces.begin(), front.begin(), front.end());
    };
    std::string unknown;  // the piece of that text, if it is not the model's
    int64_t unknown_id = model.unknown_id;
    if (family == "T5") {
      const int64_t extra = integer_field(config, "extra_ids", where, 100);
      require(extra >= 0 && extra <= 100000, "{}: extra_ids: expected 0 to 100000, found {}", where, extra);
      for (int64_t i = extra - 1; i >= 0; --i) pieces.emplace_back(fmt::format("<extra_id_{}>", i), 0);
      for (int64_t i = 0; i < extra; ++i) more.push_back(fmt::format("<extra_id_{}>", i));
      unknown_id = 2;
    } else if (family == "Albert") {
      unknown_id = 1;
    } else if (family == "Camembert") {
      without_first(1, {"<s>NOTUSED", token("pad_token"), "</s>NOTUSED", token("unk_token"), "<unk>NOTUSED"});
      pieces.emplace_back(token("mask_token"), 0);
      more = {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"};
      unknown_id = 3;
    } else if (family == "XLMRoberta" || family == "MBart") {
      without_first(3, {token("bos_token"), token("pad_token"), token("eos_token"), token("unk_token")});
      if (family == "MBart") {
        for (const char* language : kMBartLanguages) pieces.emplace_back(language, 0), more.emplace_back(language);
      }
      pieces.emplace_back(token("mask_token"), 0);
      unknown_id = 3;
    } else if (family == "DebertaV2") {
      const auto found = std::find(pieces.begin(), pieces.end(), std::pair<std::string, double>(token("unk_token"), 0));
      if (found != pieces.end()) unknown_id = found - pieces.begin();
    }
    for (const auto& [text, score] : pieces) {
      file.vocabulary->insert(text, static_cast<int64_t>(file.scores.size()));
      file.scores.push_back(score);
    }
    rest["model"] = {{"type", "Unigram"}, {"unk_id", unknown_id}, {"byte_fallback", !known && model.byte_fallback}};
  }
  add_pieces(model, config, where, file, more);
  // Tokens that the class adds behind the pieces have ids from here on.
  for (const Json& added : rest["added_tokens"])
    file.vocabulary->insert(added["content"].get<std::string>(), added["id"].get<int64_t>());

  const Json precompiled = model.character_map.empty() ? Json()
                                                       : Json{{"type", "Precompiled"},
                                                              {"precompiled_charsmap", to_base64(model.character_map)}};
  const bool prefix = bool_field(config, "add_prefix_space", where, true);
  const char* scheme = prefix ? "always" : "never";
  const auto whitespace_metaspace = [&](const char* prepend) {
    return sequence("pretokenizers", {{{"type", "WhitespaceSplit"}}, metaspace(prepend)});
  };
  if (llama) {
    const bool legacy = bool_field(config, "legacy", where, false);
    rest["pre_tokenizer"] = metaspace(!prefix ? "never" : legacy ? "always" : "first", false);
    Json decoders = {replace("▁", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
    if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    rest["decoder"] = sequence("decoders", decoders);
    rest["post_processor"] = begin_and_end(config, *file.vocabulary, where);
  } else if (gemma || !known) {
    Json normalizers = Json::array({replace(" ", "▁")});
    if (!known && !precompiled.is_null()) normalizers.insert(normalizers.begin(), precompiled);
    rest["normalizer"] = sequence("normalizers", normalizers);
    if (gemma) {
      rest["pre_tokenizer"] = {
          {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
    }
    Json decoders = Json::array({replace("▁", " ")});
    if (gemma || model.byte_fallback)
      decoders.push_back({{"type", "ByteFallback"}}), decoders.push_back({{"type", "Fuse"}});
    rest["decoder"] = sequence("decoders", decoders);
    rest["post_processor"] = begin_and_end(config, *file.vocabulary, where);
  } else if (family == "DebertaV2") {
    Json normalizers = Json::array();
    if (bool_field(config, "do_lower_case", where, false)) normalizers.push_back({{"type", "Lowercase"}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", "\\s{2,}|[\\n\\r\\t]"}}}, {"content", " "}});
    normalizers.push_back({{"type", "NFC"}});
    normalizers.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
    rest["normalizer"] = sequence("normalizers", normalizers);
    Json splits = Json::array();
    if (bool_field(config, "split_by_punct", where, false))
      splits.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
    splits.push_back(metaspace(prefix ? "always" : "first"));
    rest["pre_tokenizer"] = sequence("pretokenizers", splits);
    rest["decoder"] = metaspace(prefix ? "always" : "first");
    rest["post_processor"] = {{"type", "BertProcessing"},
                              {"cls", pair_of("cls_token", config, *file.vocabulary, where)},
                              {"sep", pair_of("sep_token", config, *file.vocabulary, where)}};
  } else if (family == "Albert") {
    Json normalizers = {replace("``", "\""), replace("''", "\"")};
    if (!bool_field(config, "keep_accents", where, false)) {
      normalizers.push_back({{"type", "NFKD"}});
      normalizers.push_back({{"type", "StripAccents"}});
    }
    if (bool_field(config, "do_lower_case", where, true)) normalizers.push_back({{"type", "Lowercase"}});
    if (!precompiled.is_null()) normalizers.push_back(precompiled);
    rest["normalizer"] = sequence("normalizers", normalizers);
    rest["pre_tokenizer"] = whitespace_metaspace(scheme);
    rest["decoder"] = metaspace(scheme);
    rest["post_processor"] = {{"type", "BertProcessing"},
                              {"cls", pair_of("cls_token", config, *file.vocabulary, where)},
                              {"sep", pair_of("sep_token", config, *file.vocabulary, where)}};
  } else {
    if (family != "MBart") rest["normalizer"] = precompiled;
    const bool always = family == "T5" || family == "MBart";
    rest["pre_tokenizer"] = whitespace_metaspace(always ? "always" : scheme);
    rest["decoder"] = metaspace(always ? "always" : scheme);
    const std::string eos = token("eos_token");
    if (family == "T5") {
      rest["post_processor"] = template_of({}, {eos}, true, *file.vocabulary, where);
    } else if (family == "MBart") {
      const std::string language = string_field(config, "src_lang", where, "en_XX");
      rest["post_processor"] = template_of({}, {eos, language}, false, *file.vocabulary, where);
    } else {
      rest["post_processor"] = {{"type", "RobertaProcessing"},
                                {"cls", pair_of("bos_token", config, *file.vocabulary, where)},
                                {"sep", pair_of("eos_token", config, *file.vocabulary, where)},
                                {"trim_offsets", false},
                                {"add_prefix_space", false}};
    }
  }
  return file;
}

}  // namespace transom::text
