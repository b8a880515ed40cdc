// SPDX-License-Identifier: Apache-2.0
// How texts are cut by the names of tokenizer.ggml.pre, and what a vocabulary that is not understood says.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/gguf/gguf_export.h"
#include "files/gguf/gguf_pre_tokenizers.h"
#include "support/folders.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

// GPT-2's character of a byte, as tokens of byte-level vocabularies are written.
std::string byte_character(int byte) {
  static const std::vector<int> kMoved = [] {
    std::vector<int> moved(256, -1);
    int next = 256;
    for (int b = 0; b < 256; ++b)
      if (!((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174)) moved[static_cast<size_t>(b)] = next++;
    return moved;
  }();
  const int c = kMoved[static_cast<size_t>(byte)] < 0 ? byte : kMoved[static_cast<size_t>(byte)];
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

struct MadeVocabulary {
  std::string model = "gpt2";
  std::optional<std::string> pre = "gpt-2";
  std::vector<std::string> tokens, merges;
  std::vector<std::pair<std::string, int64_t>> counts;
  std::vector<std::pair<std::string, bool>> flags;
  bool has_merges = true;
};

MadeVocabulary of_bytes(const std::vector<std::string>& merges) {
  MadeVocabulary made;
  std::set<std::string> known;
  for (int b = 0; b < 256; ++b) made.tokens.push_back(byte_character(b)), known.insert(made.tokens.back());
  for (const std::string& merge : merges) {
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    if (known.insert(joined).second) made.tokens.push_back(joined);
  }
  made.merges = merges;
  return made;
}

std::string written_vocabulary(const test::TemporaryFolder& folder, const MadeVocabulary& made) {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_count("llama.block_count", 1), writer.add_count("llama.context_length", 16);
  writer.add_count("llama.embedding_length", 32), writer.add_count("llama.feed_forward_length", 32);
  writer.add_count("llama.attention.head_count", 2), writer.add_float("llama.attention.layer_norm_rms_epsilon", 1e-5);
  writer.add_string("tokenizer.ggml.model", made.model);
  if (made.pre) writer.add_string("tokenizer.ggml.pre", *made.pre);
  writer.add_strings("tokenizer.ggml.tokens", made.tokens);
  if (made.has_merges) writer.add_strings("tokenizer.ggml.merges", made.merges);
  for (const auto& [key, value] : made.counts) writer.add_count("tokenizer.ggml." + key, value);
  for (const auto& [key, value] : made.flags) writer.add_bool("tokenizer.ggml." + key, value);
  writer.add_tensor("output_norm.weight", 0, {1}, [] { return std::vector<std::byte>(4); });
  static int number = 0;  // readers keep the parts of a file by its name
  const fs::path path = folder / fmt::format("made{}.gguf", ++number);
  writer.write(path);
  return path.string();
}

std::vector<int64_t> plain_ids_of(const std::string& path, const std::string& text, bool special = false) {
  const Encoding encoding = Tokenizer::from_pretrained(path).encode(text, {}, {.add_special_tokens = special});
  return {encoding.ids.begin(), encoding.ids.end()};
}

// What is said while the body runs.
template <typename Body>
std::string said_by(Body&& body) {
  std::string said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) said.append(text).append("\n");
  });
  body();
  set_log_sink({});
  return said;
}

std::string list_of(const std::vector<int64_t>& ids) { return fmt::format("{}", fmt::join(ids, " ")); }

TEST(GgufPreTokenizers, CutTextsAsLlamaCppOrTheModelsOwnTokenizersDo) {
  const Json expected =
      read_json(fs::path(test::source_folder()) / "tests/wild/files/gguf-pre-tokenizers/expected.json");
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> by_name;
  for (const auto& [text, kinds] : expected["ids"].items())
    for (const auto& [ids, names] : kinds.items())
      for (const Json& name : names) by_name[name.get<std::string>()].emplace_back(text, ids);
  EXPECT_GE(by_name.size(), 28u);
  for (const auto& [name, cases] : by_name) {
    const test::TemporaryFolder folder;
    MadeVocabulary made = of_bytes(expected["merges"].get<std::vector<std::string>>());
    made.pre = name;
    const Tokenizer tokenizer = Tokenizer::from_pretrained(written_vocabulary(folder, made));
    for (const auto& [text, ids] : cases) {
      const Encoding encoding = tokenizer.encode(text, {}, {.add_special_tokens = false});
      EXPECT_EQ(list_of({encoding.ids.begin(), encoding.ids.end()}), ids) << name << ": " << text;
    }
  }
}

TEST(GgufPreTokenizers, AnUnknownNameIsRefusedWithTheNearest) {
  const test::TemporaryFolder folder;
  MadeVocabulary made = of_bytes({"a b"});
  made.pre = "deepseek-codr";
  const std::string path = written_vocabulary(folder, made),
                    said = test::message_of([&] { Tokenizer::from_pretrained(path); });
  EXPECT_NE(said.find("tokenizer.ggml.pre 'deepseek-codr' is not supported"), std::string::npos) << said;
  EXPECT_NE(said.find("did you mean 'deepseek-coder'"), std::string::npos) << said;
}

TEST(GgufPreTokenizers, AMissingNameIsLlamaCppsDefaultAndIsSaid) {
  const test::TemporaryFolder folder;
  MadeVocabulary made = of_bytes({"1 2", "12 3", "123 4"});
  made.pre = std::nullopt;
  const std::string path = written_vocabulary(folder, made);
  std::vector<int64_t> ids;
  EXPECT_NE(said_by([&] { ids = plain_ids_of(path, "1234"); }).find("tokenizer.ggml.pre is missing"),
            std::string::npos);
  EXPECT_EQ(ids, (std::vector<int64_t>{257, '4'})) << "three digits at a time";
}

TEST(GgufPreTokenizers, AnUnknownKindOfVocabularyIsRefused) {
  const test::TemporaryFolder folder;
  MadeVocabulary made = of_bytes({"a b"});
  made.model = "rwkv";
  const std::string path = written_vocabulary(folder, made);
  EXPECT_NE(test::message_of([&] { Tokenizer::from_pretrained(path); }).find("tokenizer.ggml.model 'rwkv'"),
            std::string::npos);
  made.model = "gpt2", made.has_merges = false;
  EXPECT_NE(test::message_of([&] {
              Tokenizer::from_pretrained(written_vocabulary(folder, made));
            }).find("tokenizer.ggml.merges"),
            std::string::npos);
}

TEST(GgufPreTokenizers, SayWhetherTheFirstTokenIsAddedWhereTheFileDoesNot) {
  const test::TemporaryFolder folder;
  MadeVocabulary made = of_bytes({"a b"});
  made.tokens.push_back("<s>");
  made.counts = {{"bos_token_id", 257}};
  for (const auto& [name, adds] :
       {std::pair{"llama-bpe", true}, {"tekken", true}, {"gpt-2", false}, {"qwen2", false}}) {
    made.pre = name;
    EXPECT_EQ(plain_ids_of(written_vocabulary(folder, made), "ab", true).front() == 257, adds) << name;
  }
  made.pre = "llama-bpe", made.flags = {{"add_bos_token", false}};
  EXPECT_EQ(plain_ids_of(written_vocabulary(folder, made), "ab", true), (std::vector<int64_t>{256}));
  made.counts.clear(), made.flags = {{"add_bos_token", true}};
  const std::string path = written_vocabulary(folder, made);
  EXPECT_NE(test::message_of([&] { Tokenizer::from_pretrained(path); }).find("there is no tokenizer.ggml.bos_token_id"),
            std::string::npos);
}

TEST(GgufPreTokenizers, IdsThatAreNoTokensAreSaidAndLeftOut) {
  const test::TemporaryFolder folder;
  MadeVocabulary made = of_bytes({"a b"});
  made.counts = {{"eos_token_id", 32000}, {"padding_token_id", 4294967295}, {"bos_token_id", 256}};
  const std::string path = written_vocabulary(folder, made);
  const std::string said = said_by([&] { EXPECT_EQ(plain_ids_of(path, "ab"), (std::vector<int64_t>{256})); });
  EXPECT_NE(said.find("'tokenizer.ggml.eos_token_id': 32000 is no token of 257; it is left out"), std::string::npos)
      << said;
  EXPECT_NE(said.find("4294967295 is no token"), std::string::npos) << said;
  const Json config = read_json(fs::path(path) / "config.json");
  EXPECT_TRUE(config["eos_token_id"].is_null());
  EXPECT_EQ(config["bos_token_id"], 256);
}

// Every kind that is written comes back under a name that cuts the same way.
TEST(GgufPreTokenizers, OfTokenizerJsonAreKnownAgain) {
  for (const char* name :
       {"default", "gpt-2",        "starcoder",      "llama-bpe",   "jais-2",   "minicpm5", "qwen2",
        "qwen35",  "laguna",       "tekken",         "gpt-4o",      "tiny_aya", "bloom",    "viking",
        "falcon",  "deepseek-llm", "deepseek-coder", "deepseek-v3", "spark2_5", "superbpe", "chameleon"}) {
    const GgufPreTokenizer& kind = gguf_pre_tokenizer(name, "here");
    Json tokenizer{{"pre_tokenizer", gguf_pre_tokenizer_json(kind)},
                   {"normalizer", kind.composes ? Json{{"type", "NFC"}} : Json()},
                   {"model", {{"ignore_merges", kind.ignores_merges}}}};
    EXPECT_EQ(gguf_pre_tokenizer_name(tokenizer), name);
    tokenizer["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "x"}}}, {"behavior", "Isolated"}};
    EXPECT_NE(test::message_of([&] { gguf_pre_tokenizer_name(tokenizer); }).find("llama.cpp has no name"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace transom
