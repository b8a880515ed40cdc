// SPDX-License-Identifier: Apache-2.0
// Byte-level vocabularies (GPT-2's) write each byte as a character of its own; SentencePiece writes a space as U+2581
// and bytes without a piece as <0x0A>; WordPiece marks what goes on with a word by ##.
#include "work/generation/constraint/tokens/token_bytes.h"

#include <algorithm>
#include <map>

namespace transom {
namespace {

enum class Alphabet { kByteLevel, kSentencePiece, kWordPiece };

Alphabet alphabet_of(const Tokenizer& tokenizer) {
  if (tokenizer.token_to_id("\xc4\xa0")) return Alphabet::kByteLevel;  // U+0120, a space
  if (tokenizer.token_to_id("\xe2\x96\x81") || tokenizer.token_to_id("<0x0A>")) return Alphabet::kSentencePiece;
  if (tokenizer.token_to_id("##s")) return Alphabet::kWordPiece;
  const int64_t count = std::min<int64_t>(tokenizer.vocab_size(), 4096);
  for (int64_t id = 0; id < count; ++id) {
    const std::string token = tokenizer.id_to_token(id).value_or("");
    if (token.starts_with("\xc4\xa0")) return Alphabet::kByteLevel;
    if (token.starts_with("\xe2\x96\x81")) return Alphabet::kSentencePiece;
    if (token.starts_with("##")) return Alphabet::kWordPiece;
  }
  return Alphabet::kByteLevel;
}

// The byte that a character of a byte-level vocabulary stands for: printable ones are themselves, the others are those
// from U+0100 on, in order.
const std::map<uint32_t, char>& byte_of_character() {
  static const std::map<uint32_t, char> table = [] {
    std::map<uint32_t, char> result;
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      result[printable ? byte : next++] = static_cast<char>(byte);
    }
    return result;
  }();
  return table;
}

std::string of_byte_level(const std::string& token) {
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    const auto first = static_cast<unsigned char>(token[i]);
    const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (i + length > token.size()) return token;
    uint32_t character = length == 1 ? first : first & (0xffu >> (length + 1));
    for (size_t k = 1; k < length; ++k) character = character << 6 | (static_cast<unsigned char>(token[i + k]) & 0x3fu);
    const auto found = byte_of_character().find(character);
    if (found == byte_of_character().end()) return token;  // an added token, which stands for itself
    bytes += found->second;
    i += length;
  }
  return bytes;
}

std::string of_sentencepiece(const std::string& token) {
  if (token.size() == 6 && token.starts_with("<0x") && token[5] == '>') {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
    return std::string(1, static_cast<char>(digit(token[3]) * 16 + digit(token[4])));
  }
  std::string bytes = token;
  for (size_t at = 0; (at = bytes.find("\xe2\x96\x81", at)) != bytes.npos;) bytes.replace(at, 3, " ");
  return bytes;
}

std::string bytes_of(const std::string& token, Alphabet alphabet) {
  switch (alphabet) {
    case Alphabet::kByteLevel:
      return of_byte_level(token);
    case Alphabet::kSentencePiece:
      return of_sentencepiece(token);
    case Alphabet::kWordPiece:
      return token.starts_with("##") ? token.substr(2) : " " + token;
  }
  return token;
}

}  // namespace

std::string token_bytes(const Tokenizer& tokenizer, int64_t token) {
  const auto name = tokenizer.id_to_token(token);
  return name ? bytes_of(*name, alphabet_of(tokenizer)) : std::string();
}

std::vector<std::string> all_token_bytes(const Tokenizer& tokenizer) {
  const Alphabet alphabet = alphabet_of(tokenizer);
  const std::vector<int64_t> special = tokenizer.all_special_ids();
  std::vector<std::string> all(static_cast<size_t>(tokenizer.vocab_size()));
  for (size_t id = 0; id < all.size(); ++id) {
    if (std::binary_search(special.begin(), special.end(), static_cast<int64_t>(id))) continue;
    if (const auto name = tokenizer.id_to_token(static_cast<int64_t>(id))) all[id] = bytes_of(*name, alphabet);
  }
  return all;
}

}  // namespace transom
