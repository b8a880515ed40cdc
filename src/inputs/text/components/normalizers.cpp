// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "inputs/text/components/components.h"
#include "inputs/text/components/fields.h"
#include "inputs/text/unicode/byte_level.h"
#include "inputs/text/unicode/pattern.h"
#include "inputs/text/unicode/precompiled.h"
#include "inputs/text/unicode/unicode.h"
#include "inputs/text/unicode/unicode_forms.h"

namespace transom::text {
namespace {

// Passes each character with its span to change(c, span, out).
template <typename Change>
void each_character(AlignedText& text, const Change& change) {
  AlignedText out;
  out.bytes.reserve(text.size()), out.origin.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Span span = text.origin[i];
    change(next_character(text.bytes, i), span, out);
  }
  text = std::move(out);
}

void to_lower_case(AlignedText& text) {
  each_character(text, [](char32_t c, Span span, AlignedText& out) {
    if (c < 0x80) return out.append(c >= 'A' && c <= 'Z' ? c + 32 : c, span);
    for (const char32_t lower : lower_case(c)) out.append(lower, span);
  });
}

// The normaliser of BERT: cleans, sets spaces around Chinese characters, strips accents, turns to lower case.
class BertNormalizer : public Normalizer {
 public:
  BertNormalizer(const Json& json, const std::string& where)
      : clean_(bool_field(json, "clean_text", where, true)),
        chinese_(bool_field(json, "handle_chinese_chars", where, true)),
        lowercase_(bool_field(json, "lowercase", where, true)),
        strip_accents_(bool_field(json, "strip_accents", where, lowercase_)) {}

  void apply(AlignedText& text) const override {
    each_character(text, [&](char32_t c, Span span, AlignedText& out) {
      if (clean_) {
        if (c == 0 || c == 0xFFFD || is_control(c)) return;
        if (is_space(c)) c = ' ';
      }
      const bool separate = chinese_ && is_chinese(c);
      if (separate) out.append(U' ', span);
      out.append(c, span);
      if (separate) out.append(U' ', span);
    });
    if (strip_accents_) {
      apply_unicode_form(UnicodeForm::kNfd, text);
      each_character(text, [](char32_t c, Span span, AlignedText& out) {
        if (!is_nonspacing_mark(c)) out.append(c, span);
      });
    }
    if (lowercase_) to_lower_case(text);
  }

 private:
  bool clean_, chinese_, lowercase_, strip_accents_;
};

class FormNormalizer : public Normalizer {
 public:
  explicit FormNormalizer(UnicodeForm form) : form_(form) {}
  void apply(AlignedText& text) const override { apply_unicode_form(form_, text); }

 private:
  UnicodeForm form_;
};

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText& text) const override { to_lower_case(text); }
};

// Each byte as the character that stands for it.
class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    AlignedText out;
    for (size_t i = 0; i < text.size(); ++i)
      out.append(byte_characters()[static_cast<unsigned char>(text.bytes[i])], text.origin[i]);
    text = std::move(out);
  }
};

class StripAccents : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    each_character(text, [](char32_t c, Span span, AlignedText& out) {
      if (!is_mark(c)) out.append(c, span);
    });
  }
};

// Removes control characters and makes spaces of the others that take room.
class Nmt : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    each_character(text, [](char32_t c, Span span, AlignedText& out) {
      if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) return;
      const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      out.append(space ? U' ' : c, span);
    });
  }
};

class StripSpaces : public Normalizer {
 public:
  StripSpaces(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    size_t begin = 0, end = text.size();
    for (size_t next = 0; left_ && next < end; begin = next) {
      if (!is_space(next_character(text.bytes, next))) break;
    }
    while (right_ && end > begin) {
      const size_t previous = previous_boundary(text.bytes, end);
      size_t next = previous;
      if (!is_space(next_character(text.bytes, next))) break;
      end = previous;
    }
    AlignedText out;
    out.append(text, begin, end);
    text = std::move(out);
  }

 private:
  bool left_, right_;
};

class Replace : public Normalizer {
 public:
  Replace(const Json& json, const std::string& where)
      : pattern_(field(json, "pattern", where), where + ".pattern"), content_(string_field(json, "content", where)) {}
  void apply(AlignedText& text) const override { pattern_.replace(text, content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : prefix_(std::move(text)) {}
  void apply(AlignedText& text) const override {
    if (text.empty()) return;
    AlignedText out;
    out.append(prefix_, text.origin[0]);
    out.append(text);
    text = std::move(out);
  }

 private:
  std::string prefix_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(AlignedText& text) const override {
    const size_t size = text.size();
    for (const auto& part : parts_) part->apply(text), check_text_growth(size, text.size());
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& json, const std::string& where, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, where, depth);
  if (type == "BertNormalizer") return std::make_unique<BertNormalizer>(json, where);
  if (type == "NFC") return std::make_unique<FormNormalizer>(UnicodeForm::kNfc);
  if (type == "NFD") return std::make_unique<FormNormalizer>(UnicodeForm::kNfd);
  if (type == "NFKC") return std::make_unique<FormNormalizer>(UnicodeForm::kNfkc);
  if (type == "NFKD") return std::make_unique<FormNormalizer>(UnicodeForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Strip") {
    return std::make_unique<StripSpaces>(bool_field(json, "strip_left", where, true),
                                         bool_field(json, "strip_right", where, true));
  }
  if (type == "Replace") return std::make_unique<Replace>(json, where);
  if (type == "Prepend") return std::make_unique<Prepend>(string_field(json, "prepend", where));
  if (type == "Precompiled")
    return make_precompiled_normalizer(string_field(json, "precompiled_charsmap", where), where);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    for (const Json& part : array_field(json, "normalizers", where)) {
      if (auto made = make_normalizer(part, where + ".normalizers", depth + 1)) parts.push_back(std::move(made));
    }
    return std::make_unique<NormalizerSequence>(std::move(parts));
  }
  fail(
      "{}: the normaliser {} is not known; known are BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, "
      "ByteLevel, Nmt, Strip, Replace, Prepend, Precompiled and Sequence",
      where, quoted(type));
}

}  // namespace transom::text
