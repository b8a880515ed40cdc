// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/components/fields.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_components.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_files.h"

namespace transom::text {
namespace {

constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kClipPattern =
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

Json byte_level(bool prefix_space, bool use_regex = true) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json split(const char* pattern, const char* behavior, bool invert) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behavior}, {"invert", invert}};
}

// A line is "first second"; the first line may say "#version: ...".
void read_merges(std::string_view text, const std::string& where, TokenizerFile& file) {
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1, ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos)
      fail("{}: line {}: expected two tokens with a space between, found {}", where, number, quoted(line));
    file.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
}

}  // namespace

TokenizerFile read_byte_pair_files(const std::string& family, std::string_view vocabulary, std::string_view merges,
                                   const Json& config, const std::string& where) {
  TokenizerFile file = read_vocabulary_json(vocabulary, where);
  read_merges(merges, where.substr(0, where.rfind("vocab.json")) + "merges.txt", file);
  const bool prefix_space = bool_field(config, "add_prefix_space", where, false);
  const auto token = [&](const char* role) { return pair_of(role, config, *file.vocabulary, where); };
  Json& rest = *file.rest;
  rest["model"] = {{"type", "BPE"}};
  rest["pre_tokenizer"] = byte_level(prefix_space);
  rest["decoder"] = {{"type", "ByteLevel"}};
  if (family == "Roberta" || family == "Bart" || family == "Longformer" || family == "LED" || family == "Deberta") {
    rest["post_processor"] = {{"type", "RobertaProcessing"},
                              {"sep", token("sep_token")},
                              {"cls", token("cls_token")},
                              {"trim_offsets", bool_field(config, "trim_offsets", where, true)},
                              {"add_prefix_space", prefix_space}};
  } else if (family == "CLIP") {
    rest["model"]["end_of_word_suffix"] = "</w>";
    rest["model"]["unk_token"] = string_field(config, "unk_token", where);
    rest["normalizer"] = {{"type", "Sequence"},
                          {"normalizers",
                           {{{"type", "NFC"}},
                            {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}},
                            {{"type", "Lowercase"}}}}};
    rest["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {split(kClipPattern, "Removed", true), byte_level(false)}}};
    rest["post_processor"] = {{"type", "RobertaProcessing"},
                              {"sep", token("eos_token")},
                              {"cls", token("bos_token")},
                              {"trim_offsets", false},
                              {"add_prefix_space", false}};
  } else {
    rest["post_processor"] = begin_and_end(config, *file.vocabulary, where);
    if (family == "GPTNeoX" || family == "Qwen2") rest["normalizer"] = {{"type", "NFC"}};
    if (family == "Qwen2") {
      rest["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers", {split(kQwenPattern, "Isolated", false), byte_level(prefix_space, false)}}};
    }
    if (family == "Whisper" && file.vocabulary->find("<|startoftranscript|>") >= 0) {
      rest["post_processor"] =
          template_of({"<|startoftranscript|>", "<|notimestamps|>"}, {"<|endoftext|>"}, false, *file.vocabulary, where);
    }
  }
  rest["added_tokens"] = named_tokens(config, *file.vocabulary, where);
  return file;
}

}  // namespace transom::text
