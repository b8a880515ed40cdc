// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/tokenizer_file.h"

#include <simdjson.h>

#include "inputs/text/components/fields.h"

namespace transom::text {
namespace {

namespace dom = simdjson::dom;

constexpr int kMaximumDepth = 64;

Json to_json(dom::element element, const std::string& where, int depth = 0) {
  require(depth < kMaximumDepth, "{}: is nested deeper than {} levels", where, kMaximumDepth);
  switch (element.type()) {
    case dom::element_type::OBJECT: {
      Json result = Json::object();
      for (const auto& [key, value] : dom::object(element)) {
        const bool table = depth == 1 && (key == "vocab" || key == "merges");
        if (!table) result[std::string(key)] = to_json(value, where, depth + 1);
      }
      return result;
    }
    case dom::element_type::ARRAY: {
      Json result = Json::array();
      for (const dom::element value : dom::array(element)) result.push_back(to_json(value, where, depth + 1));
      return result;
    }
    case dom::element_type::STRING:
      return std::string(std::string_view(element));
    case dom::element_type::INT64:
      return int64_t(element);
    case dom::element_type::UINT64:
      return uint64_t(element);
    case dom::element_type::DOUBLE:
      return double(element);
    case dom::element_type::BOOL:
      return bool(element);
    case dom::element_type::NULL_VALUE:
      break;
  }
  return nullptr;
}

dom::element parse(dom::parser& parser, std::string_view text, const std::string& where) {
  dom::element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root); error != simdjson::SUCCESS)
    fail("{}: is no JSON: {}", where, simdjson::error_message(error));
  return root;
}

std::string_view text_of(dom::element element, const std::string& where) {
  std::string_view text;
  if (element.get(text) != simdjson::SUCCESS) fail("{}: expected a string", where);
  return text;
}

// {"token": id, ...}, or [["token", score], ...] with the position as id.
void read_vocabulary(dom::element element, const std::string& where, TokenizerFile& file) {
  dom::object object;
  dom::array array;
  if (element.get(object) == simdjson::SUCCESS) {
    file.vocabulary->reserve(object.size(), object.size() * 8);
    for (const auto& [key, value] : object) {
      int64_t id = 0;
      if (value.get(id) != simdjson::SUCCESS) fail("{}: token {}: expected an integer", where, quoted(key));
      file.vocabulary->insert(key, id);
    }
  } else if (element.get(array) == simdjson::SUCCESS) {
    file.vocabulary->reserve(array.size(), array.size() * 8);
    for (const dom::element item : array) {
      dom::array pair;
      double score = 0;
      if (item.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(1).get(score) != simdjson::SUCCESS) {
        fail("{}[{}]: expected [token, score]", where, file.scores.size());
      }
      file.vocabulary->insert(text_of(pair.at(0).value_unsafe(), where), static_cast<int64_t>(file.scores.size()));
      file.scores.push_back(score);
    }
  } else {
    fail("{}: expected an object or an array", where);
  }
}

// "first second", or ["first", "second"].
void read_merges(dom::element element, const std::string& where, TokenizerFile& file) {
  dom::array array;
  if (element.get(array) != simdjson::SUCCESS) fail("{}: expected an array", where);
  file.merges.reserve(array.size());
  for (const dom::element item : array) {
    dom::array pair;
    if (item.get(pair) == simdjson::SUCCESS) {
      require(pair.size() == 2, "{}[{}]: expected two tokens, found {}", where, file.merges.size(), pair.size());
      file.merges.emplace_back(text_of(pair.at(0).value_unsafe(), where), text_of(pair.at(1).value_unsafe(), where));
      continue;
    }
    const std::string_view text = text_of(item, where);
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      fail("{}[{}]: expected two tokens with a space between, found {}", where, file.merges.size(), quoted(text));
    file.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
}

}  // namespace

TokenizerFile::TokenizerFile() : rest(std::make_unique<Json>()), vocabulary(std::make_unique<Vocabulary>()) {}
TokenizerFile::~TokenizerFile() = default;
TokenizerFile::TokenizerFile(TokenizerFile&&) noexcept = default;
TokenizerFile& TokenizerFile::operator=(TokenizerFile&&) noexcept = default;

TokenizerFile read_tokenizer_json(std::string_view text, const std::string& where) {
  dom::parser parser;
  const dom::element root = parse(parser, text, where);
  TokenizerFile file;
  *file.rest = to_json(root, where);
  dom::element element;
  if (root["model"]["vocab"].get(element) == simdjson::SUCCESS) read_vocabulary(element, where + ": model.vocab", file);
  if (root["model"]["merges"].get(element) == simdjson::SUCCESS) read_merges(element, where + ": model.merges", file);
  return file;
}

TokenizerFile read_vocabulary_json(std::string_view text, const std::string& where) {
  dom::parser parser;
  const dom::element root = parse(parser, text, where);
  require(root.is_object(), "{}: expected an object of tokens and ids", where);
  TokenizerFile file;
  *file.rest = Json::object();
  read_vocabulary(root, where, file);
  return file;
}

TokenizerFile read_bert_vocabulary(std::string_view text, const Json& config, const std::string& where) {
  TokenizerFile file;
  int64_t id = 0;
  for (size_t begin = 0; begin < text.size(); ++id) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    file.vocabulary->insert(line, id);
    begin = end + 1;
  }
  const auto token = [&](const char* key) { return string_field(config, key, where); };
  const auto id_of = [&](const std::string& text) {
    const int64_t found = file.vocabulary->find(text);
    require(found >= 0, "{}: expected the token {} among the lines", where, quoted(text));
    return found;
  };
  const std::string cls = token("cls_token"), sep = token("sep_token"), mask = token("mask_token");
  // The texts of MPNet end with two of RoBERTa's special tokens.
  const bool mpnet = string_field(config, "tokenizer_class", where, "").starts_with("MPNet");
  Json added = Json::array();
  for (const std::string& text : {token("pad_token"), token("unk_token"), cls, sep, mask}) {
    const int64_t found = file.vocabulary->find(text);
    if (found < 0) continue;
    added.push_back({{"id", found},
                     {"content", text},
                     {"special", true},
                     {"normalized", false},
                     {"lstrip", mpnet && text == mask}});
  }
  *file.rest = {{"added_tokens", added},
                {"normalizer",
                 {{"type", "BertNormalizer"},
                  {"lowercase", field(config, "do_lower_case", where)},
                  {"handle_chinese_chars", field(config, "tokenize_chinese_chars", where)},
                  {"strip_accents", field(config, "strip_accents", where)}}},
                {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                {"model", {{"type", "WordPiece"}, {"unk_token", token("unk_token")}}},
                {"post_processor",
                 {{"type", mpnet ? "RobertaProcessing" : "BertProcessing"},
                  {"add_prefix_space", false},
                  {"cls", {cls, id_of(cls)}},
                  {"sep", {sep, id_of(sep)}}}},
                {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  return file;
}

}  // namespace transom::text
