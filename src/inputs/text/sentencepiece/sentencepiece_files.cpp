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

// What a class of slow tokenizers makes of a SentencePiece model and tokenizer_config.json: the components of
// tokenizer.json.
class ClassFile {
 public:
  ClassFile(const std::string& family, const SentencePieceModel& model, const Json& config, const std::string& where)
      : family_(family), model_(model), config_(config), where_(where) {
    *file_.rest = Json::object();
    prefix_ = bool_field(config, "add_prefix_space", where, true);
    if (!model.character_map.empty())
      precompiled_ = {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(model.character_map)}};
  }

  TokenizerFile make() && {
    if (is_llama() || is_gemma() || (!is_known() && model_.kind == SentencePieceModel::Kind::kBytePairs))
      add_byte_pairs();
    else add_unigrams();
    add_pieces(model_, config_, where_, file_, more_);
    // Tokens that the class adds behind the pieces have ids from here on.
    for (const Json& added : rest()["added_tokens"])
      file_.vocabulary->insert(added["content"].get<std::string>(), added["id"].get<int64_t>());
    if (is_llama()) add_llama_rules();
    else if (is_gemma() || !is_known()) add_byte_rules();
    else if (family_ == "DebertaV2") add_deberta_rules();
    else if (family_ == "Albert") add_albert_rules();
    else add_pair_rules();
    return std::move(file_);
  }

 private:
  bool is_llama() const { return family_ == "Llama"; }
  bool is_gemma() const { return family_ == "Gemma"; }
  bool is_known() const {
    constexpr std::string_view kKnown[] = {"Llama",     "Gemma",      "T5",    "Albert",
                                           "Camembert", "XLMRoberta", "MBart", "DebertaV2"};
    return std::ranges::count(kKnown, family_) > 0;
  }
  Json& rest() { return *file_.rest; }
  std::string token(const char* role) const {
    const Json& value = field(config_, role, where_);
    return value.is_string() ? value.get<std::string>() : string_field(value, "content", where_ + ": " + role);
  }
  const char* scheme() const { return prefix_ ? "always" : "never"; }

  void add_byte_pairs() {
    for (size_t id = 0; id < model_.pieces.size(); ++id)
      file_.vocabulary->insert(model_.pieces[id].text, static_cast<int64_t>(id));
    add_merges(model_, file_);
    rest()["model"] = {{"type", "BPE"}, {"fuse_unk", true}, {"byte_fallback", is_known() || model_.byte_fallback}};
    if (!is_llama()) rest()["model"]["unk_token"] = is_gemma() ? token("unk_token") : model_.unknown_piece;
  }

  void add_unigrams() {
    for (const auto& [text, score, type] : model_.pieces) pieces_.emplace_back(text, score);
    const int64_t unknown = arrange_pieces();
    for (const auto& [text, score] : pieces_) {
      file_.vocabulary->insert(text, static_cast<int64_t>(file_.scores.size()));
      file_.scores.push_back(score);
    }
    rest()["model"] = {
        {"type", "Unigram"}, {"unk_id", unknown}, {"byte_fallback", !is_known() && model_.byte_fallback}};
  }

  // Puts the pieces where the class has them. Returns the id of the unknown one.
  int64_t arrange_pieces() {
    if (family_ == "T5") {
      const int64_t extra = integer_field(config_, "extra_ids", where_, 100);
      require(extra >= 0 && extra <= 100000, "{}: extra_ids: expected 0 to 100000, found {}", where_, extra);
      for (int64_t i = extra - 1; i >= 0; --i) pieces_.emplace_back(fmt::format("<extra_id_{}>", i), 0);
      for (int64_t i = 0; i < extra; ++i) more_.push_back(fmt::format("<extra_id_{}>", i));
      return 2;
    }
    if (family_ == "Albert") return 1;
    if (family_ == "Camembert") {
      replace_first(1, {"<s>NOTUSED", token("pad_token"), "</s>NOTUSED", token("unk_token"), "<unk>NOTUSED"});
      pieces_.emplace_back(token("mask_token"), 0);
      more_ = {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"};
      return 3;
    }
    if (family_ == "XLMRoberta" || family_ == "MBart") {
      replace_first(3, {token("bos_token"), token("pad_token"), token("eos_token"), token("unk_token")});
      if (family_ == "MBart") {
        for (const char* language : kMBartLanguages) pieces_.emplace_back(language, 0), more_.emplace_back(language);
      }
      pieces_.emplace_back(token("mask_token"), 0);
      return 3;
    }
    if (family_ == "DebertaV2") {
      const auto found = std::ranges::find(pieces_, std::pair<std::string, double>(token("unk_token"), 0));
      if (found != pieces_.end()) return found - pieces_.begin();
    }
    return model_.unknown_id;
  }

  void replace_first(size_t count, const std::vector<std::string>& first) {
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(std::min(count, pieces_.size())));
    Scored front;
    for (const std::string& text : first) front.emplace_back(text, text == "<unk>NOTUSED" ? -100 : 0);
    pieces_.insert(pieces_.begin(), front.begin(), front.end());
  }

  void add_llama_rules() {
    const bool legacy = bool_field(config_, "legacy", where_, false);
    rest()["pre_tokenizer"] = metaspace(!prefix_ ? "never" : legacy ? "always" : "first", false);
    Json decoders = {replace("▁", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
    if (prefix_) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    rest()["decoder"] = sequence("decoders", decoders);
    rest()["post_processor"] = begin_and_end(config_, *file_.vocabulary, where_);
  }

  // Of Gemma, and of a class that is not known.
  void add_byte_rules() {
    Json normalizers = Json::array({replace(" ", "▁")});
    if (!is_known() && !precompiled_.is_null()) normalizers.insert(normalizers.begin(), precompiled_);
    rest()["normalizer"] = sequence("normalizers", normalizers);
    if (is_gemma()) {
      rest()["pre_tokenizer"] = {
          {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
    }
    Json decoders = Json::array({replace("▁", " ")});
    if (is_gemma() || model_.byte_fallback)
      decoders.push_back({{"type", "ByteFallback"}}), decoders.push_back({{"type", "Fuse"}});
    rest()["decoder"] = sequence("decoders", decoders);
    rest()["post_processor"] = begin_and_end(config_, *file_.vocabulary, where_);
  }

  void add_deberta_rules() {
    Json normalizers = Json::array();
    if (bool_field(config_, "do_lower_case", where_, false)) normalizers.push_back({{"type", "Lowercase"}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", "\\s{2,}|[\\n\\r\\t]"}}}, {"content", " "}});
    normalizers.push_back({{"type", "NFC"}});
    normalizers.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
    rest()["normalizer"] = sequence("normalizers", normalizers);
    Json splits = Json::array();
    if (bool_field(config_, "split_by_punct", where_, false))
      splits.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
    splits.push_back(metaspace(prefix_ ? "always" : "first"));
    rest()["pre_tokenizer"] = sequence("pretokenizers", splits);
    rest()["decoder"] = metaspace(prefix_ ? "always" : "first");
    rest()["post_processor"] = ends("BertProcessing", "cls_token", "sep_token");
  }

  void add_albert_rules() {
    Json normalizers = {replace("``", "\""), replace("''", "\"")};
    if (!bool_field(config_, "keep_accents", where_, false)) {
      normalizers.push_back({{"type", "NFKD"}});
      normalizers.push_back({{"type", "StripAccents"}});
    }
    if (bool_field(config_, "do_lower_case", where_, true)) normalizers.push_back({{"type", "Lowercase"}});
    if (!precompiled_.is_null()) normalizers.push_back(precompiled_);
    rest()["normalizer"] = sequence("normalizers", normalizers);
    add_words(scheme());
    rest()["post_processor"] = ends("BertProcessing", "cls_token", "sep_token");
  }

  // Of T5, CamemBERT, XLM-RoBERTa and mBART.
  void add_pair_rules() {
    if (family_ != "MBart") rest()["normalizer"] = precompiled_;
    add_words(family_ == "T5" || family_ == "MBart" ? "always" : scheme());
    const std::string eos = token("eos_token");
    if (family_ == "T5") {
      rest()["post_processor"] = template_of({}, {eos}, true, *file_.vocabulary, where_);
    } else if (family_ == "MBart") {
      const std::string language = string_field(config_, "src_lang", where_, "en_XX");
      rest()["post_processor"] = template_of({}, {eos, language}, false, *file_.vocabulary, where_);
    } else {
      rest()["post_processor"] = ends("RobertaProcessing", "bos_token", "eos_token");
      rest()["post_processor"].update({{"trim_offsets", false}, {"add_prefix_space", false}});
    }
  }

  void add_words(const char* prepend) {
    rest()["pre_tokenizer"] = sequence("pretokenizers", {{{"type", "WhitespaceSplit"}}, metaspace(prepend)});
    rest()["decoder"] = metaspace(prepend);
  }

  Json ends(const char* type, const char* first, const char* last) const {
    return {{"type", type},
            {"cls", pair_of(first, config_, *file_.vocabulary, where_)},
            {"sep", pair_of(last, config_, *file_.vocabulary, where_)}};
  }

  const std::string& family_;
  const SentencePieceModel& model_;
  const Json& config_;
  const std::string& where_;
  bool prefix_ = true;
  Json precompiled_;
  TokenizerFile file_;
  Scored pieces_;                  // of a unigram model
  std::vector<std::string> more_;  // tokens that the class adds
};

}  // namespace

TokenizerFile read_sentencepiece_file(const std::string& family, const SentencePieceModel& model, const Json& config,
                                      const std::string& where) {
  return ClassFile(family, model, config, where).make();
}

}  // namespace transom::text
