// SPDX-License-Identifier: Apache-2.0
// Words of textual inversion: what files hold, how they are found in texts, and what is refused. What they do to
// pictures is in stable_diffusion_test.cpp.
#include "models/diffusion/learned_words.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "models/diffusion/prompt_encoders.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TensorView vectors(const std::vector<int64_t>& shape, float value = 0.5f) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const auto owner = std::make_shared<std::vector<float>>(static_cast<size_t>(count), value);
  return {DType::kFloat32, shape, std::as_bytes(std::span(*owner)), owner};
}

fs::path pipeline_of(const char* name) { return test::golden_folder() / "diffusion" / name / "model"; }

TEST(LearnedWords, EachKindOfFileHasItsToken) {
  const test::TemporaryFolder folder;
  const auto word_of = [&](const char* file, const NamedViews& tensors, std::optional<std::string> token = {}) {
    const fs::path path = folder.path() / file;
    write_safetensors(path, tensors, {});
    return read_learned_words(path.string(), token);
  };
  const auto own = word_of("a.safetensors", {{"<cat>", vectors({2, 8})}});
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].token, "<cat>");
  EXPECT_EQ(own[0].part, "");
  EXPECT_EQ(word_of("b.safetensors", {{"<cat>", vectors({8})}}, "<dog>")[0].token, "<dog>");
  EXPECT_EQ(word_of("style.safetensors", {{"emb_params", vectors({1, 8})}})[0].token, "style");
  const auto both = word_of("xl.safetensors", {{"clip_g", vectors({1, 6})}, {"clip_l", vectors({1, 8})}}, "<cat>");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].part, "text_encoder");
  EXPECT_EQ(both[1].part, "text_encoder_2");
  EXPECT_EQ(both[1].rows.shape, (std::vector<int64_t>{1, 6}));
}

TEST(LearnedWords, AFolderMayHoldThoseOfTwoEncoders) {
  const test::TemporaryFolder folder;
  write_safetensors(folder.path() / "learned_embeds.safetensors", {{"<cat>", vectors({1, 8})}}, {});
  EXPECT_EQ(read_learned_words(folder.path().string(), {})[0].part, "");
  write_safetensors(folder.path() / "learned_embeds_2.safetensors", {{"<cat>", vectors({1, 6})}}, {});
  const auto words = read_learned_words(folder.path().string(), {});
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].part, "text_encoder");
  EXPECT_EQ(words[1].part, "text_encoder_2");
}

TEST(LearnedWords, OtherFilesAreRefusedInALine) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const NamedViews& tensors) {
    const fs::path path = folder.path() / "wrong.safetensors";
    write_safetensors(path, tensors, {});
    const std::string message = test::message_of([&] { read_learned_words(path.string(), {}); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  };
  EXPECT_NE(refusal({{"a", vectors({8})}, {"b", vectors({8})}}).find("found 2 tensors"), std::string::npos);
  EXPECT_NE(refusal({{"a", vectors({1, 2, 8})}}).find("[n, width]"), std::string::npos);
  EXPECT_NE(refusal({{std::string(300, 'a'), vectors({8})}}).find("200 bytes"), std::string::npos);
  EXPECT_NE(test::message_of([&] { read_learned_words(folder.path().string(), {}); }).find("learned_embeds"),
            std::string::npos);
  write_file(folder.path() / "no.bin", "no archive");
  const std::string message = test::message_of([&] { read_learned_words((folder.path() / "no.bin").string(), {}); });
  EXPECT_FALSE(message.empty());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(LearnedWords, AreFoundWhereverTheyStand) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained((pipeline_of("sd-pndm") / "tokenizer").string());
  const auto plain = [&](const char* text) {
    return tokenizer.encode(text, std::nullopt, {.add_special_tokens = false}).ids;
  };
  LearnedTokens words;
  words.add(tokenizer, "<Cat>", {9001, 9002});
  words.add(tokenizer, "<cat>er", {9003});
  EXPECT_TRUE(words.holds("<cat>_1"));
  const std::vector<int64_t> around = tokenizer.encode("").ids;
  const auto ids_of = [&](const std::string& text, int64_t length, bool expects_cut = false) {
    bool cut = false;
    const Encoding made = words.encode(tokenizer, text, length, cut);
    EXPECT_EQ(cut, expects_cut);
    EXPECT_EQ(made.ids.size(), static_cast<size_t>(length));
    return made.ids;
  };
  std::vector<int64_t> expected{around[0]};
  const auto append = [&](const std::vector<int64_t>& more) {
    expected.insert(expected.end(), more.begin(), more.end());
  };
  append(plain("a photo of"));
  append({9001, 9002, 9003, 9002});
  append(plain("!"));
  append({around[1]});
  const std::vector<int64_t> found =
      ids_of("a photo of <CAT><cat>er <cat>_1 !", static_cast<int64_t>(expected.size()) + 1);
  EXPECT_EQ(std::vector<int64_t>(found.begin(), found.end() - 1), expected);
  EXPECT_EQ(ids_of("<cat> <cat>", 4, true), (std::vector<int64_t>{around[0], 9001, 9002, around[1]}));
}

TEST(LearnedWords, TextsChangeByThemAndComeBack) {
  const NoGradient fixed;
  PromptEncoders encoders(PipelineDirectory(pipeline_of("sdxl")), {}, PromptEncoders::Kind::kXl);
  const auto states = [&] { return encoders("a <cat>", 0).states.to_vector<float>(); };
  const std::vector<float> before = states();
  const LearnedWord narrow{"<cat>", "", vectors({2, 6}), "narrow"}, wide{"<cat>", "", vectors({2, 8}), "wide"};
  encoders.learn({narrow, wide});
  EXPECT_NE(states(), before);
  const std::string twice = test::message_of([&] { encoders.learn({narrow, narrow}); });
  EXPECT_NE(twice.find("has this token already"), std::string::npos) << twice;
  EXPECT_EQ(states(), before);
  const std::string other = test::message_of([&] { encoders.learn({{"<cat>", "", vectors({7}), "other"}}); });
  EXPECT_NE(other.find("7 wide, and those of the encoders 8 of text_encoder, 6 of text_encoder_2"), std::string::npos)
      << other;
  EXPECT_NE(test::message_of([&] {
              encoders.learn({{"<cat>", "text_encoder_3", vectors({8}), "third"}});
            }).find("text_encoder_3"),
            std::string::npos);
  encoders.learn({wide});
  encoders.learn({});
  EXPECT_EQ(states(), before);
}

}  // namespace
}  // namespace transom
