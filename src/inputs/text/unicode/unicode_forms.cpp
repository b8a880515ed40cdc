// SPDX-License-Identifier: Apache-2.0
// ICU decomposes and composes single characters; ordering and composition are done here, so that each character of the
// result is known to stand for the characters that it came from. The alignment is that of the tokenizers library:
// position by position through the changes of length, also where marks were reordered.
#include "inputs/text/unicode/unicode_forms.h"

#include <unicode/unorm2.h>

#include <algorithm>

#include "base/error.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

// The version of the tokenizers library's normalisation tables; younger characters are inert.
constexpr int kUnicode = 9;

const UNormalizer2* instance(UnicodeForm form) {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* result = nullptr;
  switch (form) {
    case UnicodeForm::kNfd:
      result = unorm2_getNFDInstance(&error);
      break;
    case UnicodeForm::kNfkd:
      result = unorm2_getNFKDInstance(&error);
      break;
    case UnicodeForm::kNfc:
      result = unorm2_getNFCInstance(&error);
      break;
    case UnicodeForm::kNfkc:
      result = unorm2_getNFKCInstance(&error);
      break;
  }
  if (U_FAILURE(error)) fail(ErrorKind::kInternal, "ICU has no Unicode normalisation data: {}", u_errorName(error));
  return result;
}

struct Changed : CharacterChange {
  uint8_t combining_class = 0;
};

std::vector<Changed> decompose(std::string_view text, const UNormalizer2* normalizer) {
  std::vector<Changed> result;
  result.reserve(text.size());
  const auto add = [&](char32_t c, int change) {
    const bool mark = c >= 0x300 && in_unicode(c, kUnicode);
    result.push_back({{c, change}, mark ? unorm2_getCombiningClass(normalizer, static_cast<UChar32>(c)) : uint8_t{0}});
  };
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_character(text, i);
    UChar buffer[64];
    UErrorCode error = U_ZERO_ERROR;
    const int32_t length = unorm2_getDecomposition(normalizer, static_cast<UChar32>(c), buffer, 64, &error);
    if (length < 0 || !in_unicode(c, kUnicode) || U_FAILURE(error)) {
      add(c, 0);
      continue;
    }
    for (int32_t k = 0; k < length;) {
      const int change = k > 0 ? 1 : 0;
      UChar32 part = 0;
      U16_NEXT(buffer, k, length, part);
      add(static_cast<char32_t>(part), change);
    }
  }
  for (size_t i = 0; i < result.size();) {
    size_t end = i + 1;
    if (result[i].combining_class != 0) {
      while (end < result.size() && result[end].combining_class != 0) ++end;
      std::stable_sort(result.begin() + static_cast<std::ptrdiff_t>(i),
                       result.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const Changed& a, const Changed& b) { return a.combining_class < b.combining_class; });
    }
    i = end;
  }
  return result;
}

std::vector<Changed> compose(const std::vector<Changed>& parts, const UNormalizer2* normalizer) {
  std::vector<Changed> result;
  result.reserve(parts.size());
  size_t starter = SIZE_MAX;
  int last_class = -1;  // of the marks that stand behind the starter; -1: none
  for (const Changed& part : parts) {
    if (starter != SIZE_MAX && last_class < std::max<int>(part.combining_class, last_class < 0 ? 0 : 1)) {
      const UChar32 composed =
          unorm2_composePair(normalizer, static_cast<UChar32>(result[starter].c), static_cast<UChar32>(part.c));
      if (composed >= 0 && in_unicode(static_cast<char32_t>(composed), kUnicode)) {
        result[starter].c = static_cast<char32_t>(composed);
        result[starter].change += part.change - 1;
        continue;
      }
    }
    if (part.combining_class == 0) {
      starter = result.size(), last_class = -1;
    } else if (starter != SIZE_MAX) {
      last_class = part.combining_class;
    }
    result.push_back(part);
  }
  return result;
}

}  // namespace

void apply_unicode_form(UnicodeForm form, AlignedText& text) {
  if (std::all_of(text.bytes.begin(), text.bytes.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return;
  const bool composing = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const bool compatibility = form == UnicodeForm::kNfkd || form == UnicodeForm::kNfkc;
  const UNormalizer2* decomposer = instance(compatibility ? UnicodeForm::kNfkd : UnicodeForm::kNfd);
  std::vector<Changed> changed = decompose(text.bytes, decomposer);
  if (composing) changed = compose(changed, instance(UnicodeForm::kNfc));
  text.transform({changed.begin(), changed.end()});
}

}  // namespace transom::text
