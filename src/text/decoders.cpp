// SPDX-License-Identifier: Apache-2.0
// Decoders turn tokens back into text.
#include "text/decoders.h"

#include "base/error.h"
#include "base/json.h"

namespace transom::text {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

std::string cleaned_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kReplacements) text = replaced(std::move(text), from, to);
  return text;
}

namespace {

class WordPieceDecoder : public Decoder {
 public:
  explicit WordPieceDecoder(const Json& json) : cleanup_(flag(json, "cleanup", true)) {
    if (json.contains("prefix") && json["prefix"].is_string()) prefix_ = json["prefix"].get<std::string>();
  }
  std::vector<std::string> decode(std::vector<std::string> tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (!prefix_.empty() && token.starts_with(prefix_)) token.erase(0, prefix_.size());
        else token.insert(0, " ");
      }
      if (cleanup_) token = cleaned_up(std::move(token));
    }
    return tokens;
  }

 private:
  std::string prefix_ = "##";
  bool cleanup_;
};

class Sequence : public Decoder {
 public:
  Sequence(const Json& json, const std::string& where, int depth) {
    if (!json.contains("decoders") || !json["decoders"].is_array())
      fail("{}: decoder Sequence: expected a list of decoders", where);
    for (const Json& part : json["decoders"]) parts_.push_back(parse_decoder(part, where, depth + 1));
  }
  std::vector<std::string> decode(std::vector<std::string> tokens) const override {
    for (const auto& part : parts_)
      if (part) tokens = part->decode(std::move(tokens));
    return tokens;
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

}  // namespace

std::unique_ptr<Decoder> parse_decoder(const Json& json, const std::string& where, int depth) {
  if (json.is_null()) return nullptr;
  if (depth > kMaximumDepth) fail("{}: decoders are nested deeper than {} levels", where, kMaximumDepth);
  const std::string type = component_type(json, where);
  if (type == "WordPiece") return std::make_unique<WordPieceDecoder>(json);
  if (type == "Sequence") return std::make_unique<Sequence>(json, where, depth);
  unknown_component("decoder", type, {"Sequence", "WordPiece"}, where);
}

}  // namespace transom::text
