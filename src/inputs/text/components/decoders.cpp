// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "inputs/text/components/components.h"
#include "inputs/text/components/fields.h"
#include "inputs/text/components/metaspace.h"
#include "inputs/text/unicode/byte_level.h"
#include "inputs/text/unicode/clean_up.h"
#include "inputs/text/unicode/pattern.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

using Tokens = std::vector<std::string>;

void join(Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

size_t total_size(const Tokens& tokens) {
  size_t size = 0;
  for (const std::string& token : tokens) size += token.size();
  return size;
}

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(const Json& json, const std::string& where)
      : prefix_(string_field(json, "prefix", where, "##")), clean_up_(bool_field(json, "cleanup", where, true)) {}
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (token.starts_with(prefix_)) token.erase(0, prefix_.size());
        else token.insert(0, 1, ' ');
      }
      if (clean_up_) {
        token = replace_all(clean_up_spaces(std::move(token)), " do not", " don't");
      }
    }
  }

 private:
  std::string prefix_;
  bool clean_up_;
};

// Repeated tokens are one, blanks none.
class CtcTokenDecoder : public Decoder {
 public:
  CtcTokenDecoder(const Json& json, const std::string& where)
      : blank_(string_field(json, "pad_token", where, "<pad>")),
        delimiter_(string_field(json, "word_delimiter_token", where, "|")),
        clean_up_(bool_field(json, "cleanup", where, true)) {}
  void apply(Tokens& tokens) const override {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      if (!blank_.empty()) token = replace_all(std::move(token), blank_, "");
      if (!clean_up_) continue;
      token = replace_all(clean_up_spaces(std::move(token)), " do not", " don't");
      if (!delimiter_.empty()) token = replace_all(std::move(token), delimiter_, " ");
    }
    std::erase_if(tokens, [](const std::string& token) { return token.empty(); });
  }

 private:
  std::string blank_, delimiter_;
  bool clean_up_;
};

class ByteLevelDecoder : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) {
      const size_t before = bytes.size();
      for (size_t i = 0; i < token.size();) {
        if (append_byte_of(next_character(token, i), bytes)) continue;
        bytes.resize(before);  // a token outside of the byte-level alphabet stands for itself
        bytes += token;
        break;
      }
    }
    tokens.assign(1, well_formed(bytes));
  }
};

class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(const Json& json, const std::string& where) : metaspace_(json, where) {}
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool added = i == 0 && metaspace_.scheme != PrependScheme::kNever;
      tokens[i] = replace_all(std::move(tokens[i]), metaspace_.replacement, added ? "" : " ");
    }
  }

 private:
  Metaspace metaspace_;
};

class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(std::move(tokens[i]), suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

class Fuse : public Decoder {
 public:
  void apply(Tokens& tokens) const override { join(tokens); }
};

// Takes up to `start` and `stop` times the character `content` from the ends of each token.
class StripDecoder : public Decoder {
 public:
  StripDecoder(const Json& json, const std::string& where)
      : content_(nonempty_field(json, "content", where)),
        start_(integer_field(json, "start", where, 0)),
        stop_(integer_field(json, "stop", where, 0)) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      for (int64_t i = 0; i < start_ && token.starts_with(content_); ++i) token.erase(0, content_.size());
      for (int64_t i = 0; i < stop_ && token.ends_with(content_); ++i) token.resize(token.size() - content_.size());
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(const Json& json, const std::string& where)
      : pattern_(field(json, "pattern", where), where + ".pattern"), content_(string_field(json, "content", where)) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) token = pattern_.replaced(token, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Runs of <0x41> become the bytes that they name, or a U+FFFD a byte where these are no UTF-8.
class ByteFallback : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (well_formed(bytes) == bytes) {
        result.push_back(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) result.emplace_back("\uFFFD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      unsigned value = 0;
      if (token.size() == 6 && token.starts_with("<0x") && token[5] == '>' &&
          std::from_chars(token.data() + 3, token.data() + 5, value, 16).ptr == token.data() + 5) {
        bytes.push_back(static_cast<char>(static_cast<unsigned char>(value)));
        continue;
      }
      flush();
      result.push_back(std::move(token));
    }
    flush();
    tokens = std::move(result);
  }
};

class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}
  void apply(Tokens& tokens) const override {
    const size_t size = total_size(tokens);
    for (const auto& part : parts_) part->apply(tokens), check_text_growth(size, total_size(tokens));
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Json& json, const std::string& where, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, where, depth);
  if (type == "WordPiece") return std::make_unique<WordPieceDecoder>(json, where);
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(json, where);
  if (type == "BPEDecoder") {
    const bool named = !field(json, "suffix", where).is_null();
    return std::make_unique<BpeDecoder>(named ? nonempty_field(json, "suffix", where) : "</w>");
  }
  if (type == "CTC") return std::make_unique<CtcTokenDecoder>(json, where);
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") return std::make_unique<StripDecoder>(json, where);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(json, where);
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Decoder>> parts;
    for (const Json& part : array_field(json, "decoders", where)) {
      if (auto made = make_decoder(part, where + ".decoders", depth + 1)) parts.push_back(std::move(made));
    }
    return std::make_unique<DecoderSequence>(std::move(parts));
  }
  fail(
      "{}: the decoder {} is not known; known are WordPiece, ByteLevel, Metaspace, BPEDecoder, CTC, Fuse, Strip, "
      "Replace, "
      "ByteFallback and Sequence",
      where, quoted(type));
}

}  // namespace transom::text
