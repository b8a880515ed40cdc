// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/image_text/tagged_fields.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "inputs/text/unicode/clean_up.h"

namespace transom {
namespace {

constexpr std::string_view kBegin = "<s_", kEnd = "</s_", kNext = "<sep/>";
constexpr int kDeepest = 64;

char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Whatever the case of its letters.
size_t find_tag(std::string_view text, std::string_view tag, size_t from) {
  if (from > text.size()) return text.npos;
  const auto same = [](char a, char b) { return small_letter(a) == small_letter(b); };
  const auto found = std::search(text.begin() + static_cast<ptrdiff_t>(from), text.end(), tag.begin(), tag.end(), same);
  return found == text.end() ? text.npos : static_cast<size_t>(found - text.begin());
}

void remove_all(std::string& text, const std::string& part) {
  std::string kept;
  size_t end = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, end)) {
    kept += text.substr(end, at - end);
    end = at + part.size();
  }
  text = kept + text.substr(end);
}

class TagReader {
 public:
  explicit TagReader(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The groups of fields, which <sep/> parts; what is left behind the last of them stays in `text`.
  Json groups(std::string& text, int depth) const {
    if (depth > kDeepest) fail("a written document: fields lie more than {} deep", kDeepest);
    Json list = Json::array(), fields = Json::object();
    while (!text.empty()) {
      const size_t begin = find_tag(text, kBegin, 0);
      const size_t close = begin == text.npos ? text.npos : text.find('>', begin);
      if (close == text.npos) break;
      const std::string opening = text.substr(begin, close + 1 - begin);
      const std::string name = opening.substr(kBegin.size(), opening.size() - kBegin.size() - 1);
      const std::string ending = std::string(kEnd) + name + ">";
      const size_t end = find_tag(text, ending, 0);
      if (end == text.npos) {  // never closed: as if it were not there
        remove_all(text, opening);
        continue;
      }
      if (const size_t last = find_tag(text, ending, close + 1); last != text.npos) {
        const Json value = value_of(text::stripped(text.substr(close + 1, last - close - 1)), depth);
        if (!value.is_null()) fields[name] = value;
      }
      const std::string written = text.substr(end, ending.size());
      text = text::stripped(text.substr(text.find(written) + written.size()));
      if (!text.starts_with(kNext)) continue;
      text.erase(0, kNext.size());
      list.push_back(std::move(fields));
      fields = Json::object();
      separated_ = true;
    }
    if (!fields.empty()) list.push_back(std::move(fields));
    return list;
  }
  bool separated() const { return separated_; }

 private:
  // Fields, or one value or several; null: nothing.
  Json value_of(std::string content, int depth) const {
    if (content.find(kBegin) != content.npos && content.find(kEnd) != content.npos) {
      const bool before = separated_;
      Json list = groups(content, depth + 1);
      separated_ = before;
      if (list.empty()) return nullptr;
      return list.size() == 1 ? Json(list[0]) : list;
    }
    Json values = Json::array();
    for (size_t at = 0; at != content.npos;) {
      const size_t end = content.find(kNext, at);
      std::string value = text::stripped(content.substr(at, end == content.npos ? end : end - at));
      if (value.starts_with('<') && value.ends_with("/>") && tokenizer_.token_to_id(value))
        value = value.substr(1, value.size() - 3);
      values.push_back(value);
      at = end == content.npos ? end : end + kNext.size();
    }
    return values.size() == 1 ? Json(values[0]) : values;
  }

  const Tokenizer& tokenizer_;
  mutable bool separated_ = false;  // whether <sep/> stood between the outermost groups
};

}  // namespace

Json fields_of_tags(const std::string& text, const Tokenizer& tokenizer) {
  const TagReader reader(tokenizer);
  std::string rest = text;
  Json list = reader.groups(rest, 0);
  if (reader.separated()) return list;
  return list.empty() ? Json{{"text_sequence", rest}} : Json(list[0]);
}

std::string tagged_text(const std::vector<int64_t>& ids, const Tokenizer& tokenizer) {
  std::string written = tokenizer.decode(ids);
  for (const char* role : {"eos", "pad"})
    if (const auto token = tokenizer.special_token(role); token && !token->empty()) remove_all(written, *token);
  if (const size_t begin = written.find('<'); begin != written.npos)
    if (const size_t end = written.find('>', begin); end != written.npos) written.erase(begin, end + 1 - begin);
  return text::stripped(written);
}

}  // namespace transom
