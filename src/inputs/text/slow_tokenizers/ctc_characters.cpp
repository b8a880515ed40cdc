// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/ctc_characters.h"

#include <unicode/ucasemap.h>

#include "inputs/text/components/fields.h"
#include "inputs/text/slow_tokenizers/python_components.h"
#include "inputs/text/unicode/clean_up.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

// Upper or lower case of a whole text, with ß as SS, as Python has it.
std::string cased(std::string_view text, bool upper) {
  UErrorCode error = U_ZERO_ERROR;
  UCaseMap* map = ucasemap_open("", 0, &error);
  std::string result(text.size() * 3 + 16, '\0');
  const auto convert = upper ? ucasemap_utf8ToUpper : ucasemap_utf8ToLower;
  const int32_t size = U_FAILURE(error) ? 0
                                        : convert(map, result.data(), static_cast<int32_t>(result.size()), text.data(),
                                                  static_cast<int32_t>(text.size()), &error);
  ucasemap_close(map);
  if (U_FAILURE(error)) fail(ErrorKind::kInternal, "ICU cannot change the case of a text: {}", u_errorName(error));
  result.resize(static_cast<size_t>(size));
  return result;
}

class Characters : public PreTokenizer {
 public:
  Characters(bool capitals, std::string delimiter) : capitals_(capitals), delimiter_(std::move(delimiter)) {}

  void apply(Pieces& pieces) const override {
    pieces.rewrite([&](const Piece& piece, const AlignedText& text, AlignedText& out) {
      const std::string_view view = text.view(piece.begin, piece.end);
      for (size_t at = 0; at < view.size();) {
        const size_t begin = at;
        next_character(view, at);
        const std::string_view character = view.substr(begin, at - begin);
        const Span span = text.original(piece.begin + begin, piece.begin + at);
        if (character == " ") out.append(delimiter_, span);
        else out.append(capitals_ ? cased(character, true) : std::string(character), span);
      }
    });
    pieces.split([](std::string_view text, const auto& emit) {
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        next_character(text, at);
        emit(begin, at);
      }
    });
  }

 private:
  bool capitals_;
  std::string delimiter_;
};

class CharacterModel : public TokenModel {
 public:
  CharacterModel(const Vocabulary& vocabulary, int64_t unknown) : vocabulary_(vocabulary), unknown_(unknown) {}
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    const int64_t id = vocabulary_.find(piece);
    require(id >= 0 || unknown_ >= 0, "vocab.json has neither the character {} nor an unknown token", quoted(piece));
    tokens.push_back({id >= 0 ? id : unknown_, 0, static_cast<uint32_t>(piece.size())});
  }

 private:
  const Vocabulary& vocabulary_;
  int64_t unknown_;
};

// Graves et al. 2006: repeated tokens are one, blanks (the padding token) none.
class CtcDecoder : public Decoder {
 public:
  CtcDecoder(bool small, std::string blank, std::string delimiter, std::string space)
      : small_(small), blank_(std::move(blank)), delimiter_(std::move(delimiter)), space_(std::move(space)) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::string result;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if ((i > 0 && tokens[i] == tokens[i - 1]) || tokens[i] == blank_) continue;
      result += tokens[i] == delimiter_ ? space_ : tokens[i];
    }
    result = stripped(result);
    tokens.assign(1, small_ ? cased(result, false) : result);
  }

 private:
  bool small_;
  std::string blank_, delimiter_, space_;
};

}  // namespace

Components make_ctc_components(const Json& fields, const TokenizerConfig& config, const Vocabulary& vocabulary,
                               const std::string& where) {
  const bool small = bool_field(fields, "do_lower_case", where, false);
  const std::string delimiter = config.special_tokens.at("word_delimiter");
  Components parts;
  parts.pre_tokenizer = std::make_unique<Characters>(small, delimiter);
  parts.model = std::make_unique<CharacterModel>(vocabulary, vocabulary.find(config.special_tokens.at("unk")));
  parts.post_processor = std::make_unique<PythonProcessing>(std::nullopt);
  parts.decoder = std::make_unique<CtcDecoder>(small, config.special_tokens.at("pad"), delimiter,
                                               string_field(fields, "replace_word_delimiter_char", where, " "));
  return parts;
}

std::vector<AddedToken> long_tokens(const Vocabulary& vocabulary) {
  std::vector<AddedToken> result;
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    const auto token = vocabulary.text(id);
    if (!token || count_characters(*token) < 2) continue;
    result.push_back({id, std::string(*token), false, true, true, false, false});
  }
  return result;
}

TokenizerFile read_ctc_vocabulary(std::string_view text, const Json& fields, const std::string& where) {
  const std::string language = string_field(fields, "target_lang", where, "");
  if (language.empty()) return read_vocabulary_json(text, where);
  const nlohmann::json languages = parse_large_json(text, where);
  require(languages.is_object() && languages.contains(language), "{}: has no vocabulary for target_lang {}", where,
          quoted(language));
  return read_vocabulary_json(languages[language].dump(), where + ": " + quoted(language));
}

}  // namespace transom::text
