// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/vits_characters.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "base/terminal/log.h"
#include "inputs/text/components/fields.h"
#include "inputs/text/slow_tokenizers/python_components.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

constexpr int64_t kBlank = 0;

struct VitsRules {
  bool normalize, phonemes, romanized, romanian;
};

class VitsNormalizer : public Normalizer {
 public:
  VitsNormalizer(const VitsRules& rules, const Vocabulary& vocabulary, const TokenizerConfig& config, std::string where)
      : rules_(rules), where_(std::move(where)) {
    for (int64_t id = 0; id < vocabulary.size(); ++id)
      if (const auto token = vocabulary.text(id)) add(std::string(*token), true);
    for (const auto& [role, token] : config.special_tokens) add(token, false);
  }

  void apply(AlignedText& text) const override {
    AlignedText out;
    bool foreign = false;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at, whole = rules_.normalize ? token_at(text.bytes, at) : 0;
      if (whole > 0) {
        at += whole;
        out.append(text, begin, at);
        continue;
      }
      const char32_t c = next_character(text.bytes, at);
      const Span span = text.original(begin, at);
      if (!rules_.normalize) out.append(c, span);
      else
        for (const char32_t small : lower_case(c)) out.append(small, span);
    }
    for (const char c : out.bytes) foreign = foreign || static_cast<unsigned char>(c) >= 0x80;
    if (rules_.romanized && foreign && !told_.exchange(true))
      log(LogLevel::kWarning,
          fmt::format("{}: is_uroman: the text has letters that are not Latin ones, and the model expects it in those; "
                      "romanize it with uroman before",
                      where_));
    text = kept(out);
  }

 private:
  static constexpr char32_t kCommaBelow = 0x21b, kCedilla = 0x163;

  void add(const std::string& token, bool own) {
    const size_t count = count_characters(token);
    if (own && count == 1) characters_.insert(token);
    if (count > 1) long_.insert(token);
    if (count == 1) singles_.insert(token);
  }
  // The bytes of a token of the vocabulary that stands there; 0: none.
  size_t token_at(std::string_view text, size_t at) const {
    for (const std::string& token : long_)
      if (text.substr(at).starts_with(token)) return token.size();
    size_t end = at;
    next_character(text, end);
    return singles_.find(text.substr(at, end - at)) == singles_.end() ? 0 : end - at;
  }
  // With what the vocabulary has, and without spaces around.
  AlignedText kept(const AlignedText& text) const {
    AlignedText out;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_character(text.bytes, at);
      const char32_t written = rules_.romanian && c == kCommaBelow ? kCedilla : c;
      const bool known = characters_.find(character_text(written)) != characters_.end();
      if (known || rules_.phonemes || !rules_.normalize) out.append(written, text.original(begin, at));
    }
    if (rules_.phonemes || !rules_.normalize) return out;
    size_t begin = 0, end = out.size();
    for (size_t at = 0; at < out.size() && is_space(next_character(out.bytes, at));) begin = at;
    while (end > begin) {
      const size_t before = previous_boundary(out.bytes, end);
      size_t at = before;
      if (!is_space(next_character(out.bytes, at))) break;
      end = before;
    }
    AlignedText stripped;
    stripped.append(out, begin, end);
    return stripped;
  }

  VitsRules rules_;
  std::string where_;
  std::set<std::string, std::less<>> characters_, singles_, long_;
  mutable std::atomic<bool> told_ = false;
};

class VitsCharacterModel : public TokenModel {
 public:
  VitsCharacterModel(const Vocabulary& vocabulary, int64_t unknown, bool blanks)
      : vocabulary_(vocabulary), unknown_(unknown), blanks_(blanks) {}
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    for (size_t at = 0; at < piece.size();) {
      const size_t begin = at;
      next_character(piece, at);
      const int64_t id = vocabulary_.find(piece.substr(begin, at - begin));
      require(id >= 0 || unknown_ >= 0, "vocab.json has neither the character {} nor an unknown token",
              quoted(piece.substr(begin, at - begin)));
      const auto from = static_cast<uint32_t>(begin), to = static_cast<uint32_t>(at);
      if (blanks_) tokens.push_back({kBlank, from, from});
      tokens.push_back({id >= 0 ? id : unknown_, from, to});
    }
    const auto end = static_cast<uint32_t>(piece.size());
    if (blanks_) tokens.push_back({kBlank, end, end});
  }

 private:
  const Vocabulary& vocabulary_;
  int64_t unknown_;
  bool blanks_;
};

class VitsDecoder : public Decoder {
 public:
  explicit VitsDecoder(bool blanks) : blanks_(blanks) {}
  void apply(std::vector<std::string>& tokens) const override {
    std::string result;
    const bool every_other = blanks_ && tokens.size() > 1;
    for (size_t i = every_other ? 1 : 0; i < tokens.size(); i += every_other ? 2 : 1) result += tokens[i];
    tokens.assign(1, std::move(result));
  }

 private:
  bool blanks_;
};

}  // namespace

Components make_vits_components(const Json& fields, const TokenizerConfig& config, const Vocabulary& vocabulary,
                                const std::string& where) {
  const VitsRules rules{.normalize = bool_field(fields, "normalize", where, true),
                        .phonemes = bool_field(fields, "phonemize", where, true),
                        .romanized = bool_field(fields, "is_uroman", where, false),
                        .romanian = string_field(fields, "language", where, "") == "ron"};
  const bool blanks = bool_field(fields, "add_blank", where, true);
  require(vocabulary.text(kBlank).has_value() || !blanks, "{}: add_blank: expected a token 0 in vocab.json", where);
  if (rules.phonemes)
    log(LogLevel::kWarning,
        fmt::format("{}: phonemize: texts are read as phonemes; text-to-speech makes them by espeak-ng", where));
  Components parts;
  parts.normalizer = std::make_unique<VitsNormalizer>(rules, vocabulary, config, where);
  const auto unknown = config.special_tokens.find("unk");
  parts.model = std::make_unique<VitsCharacterModel>(
      vocabulary, unknown == config.special_tokens.end() ? -1 : vocabulary.find(unknown->second), blanks);
  parts.post_processor = std::make_unique<PythonProcessing>(std::nullopt);
  parts.decoder = std::make_unique<VitsDecoder>(blanks);
  return parts;
}

}  // namespace transom::text
