// SPDX-License-Identifier: Apache-2.0
// Beams in the engine: the texts of generate(), in any company and with any room.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <numeric>

#include "support/message.h"
#include "transom/config.h"
#include "transom/engine.h"
#include "transom/error.h"
#include "work/generation/engine/paged/sequence_blocks.h"

namespace transom {
namespace {

constexpr const char* kLlama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40,
  "max_position_embeddings": 96, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 30, "initializer_range": 0.5})";
constexpr const char* kAlibiModel = R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 40,
  "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.6})";
constexpr const char* kBart = R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
  "vocab_size": 40, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 96,
  "init_std": 0.6, "is_encoder_decoder": true, "decoder_start_token_id": 2, "pad_token_id": 1})";

const std::vector<std::string> kOptions{
    R"({"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 20})",
    R"({"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 35, "eos_token_id": [5, 9, 30]})",
    R"({"num_beams": 5, "max_new_tokens": 24, "eos_token_id": [7, 8, 9, 10], "early_stopping": true})",
    R"({"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 24, "eos_token_id": [7, 11, 30],
        "early_stopping": "never", "length_penalty": 2.0})",
    R"({"num_beams": 6, "num_return_sequences": 6, "max_new_tokens": 18, "eos_token_id": 3, "length_penalty": -1.0,
        "repetition_penalty": 1.4, "no_repeat_ngram_size": 2})",
    R"({"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 12, "do_sample": true, "seed": 11,
        "temperature": 1.3, "top_k": 12})"};

struct EndedText {
  TokenIds tokens;
  double score = 0;
  FinishReason finish = FinishReason::kError;
  std::string error;
  bool operator==(const EndedText&) const = default;
};
using EndedTexts = std::map<std::pair<uint64_t, int64_t>, EndedText>;

EndedTexts ended_beams(Engine& engine) {
  EndedTexts texts;
  const auto collect = [&] {
    for (const EngineEvent& event : engine.take()) {
      EndedText& text = texts[{event.request, event.index}];
      text.tokens.insert(text.tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.end_token) text.tokens.push_back(*event.end_token);
      if (event.finish) text.finish = *event.finish;
      text.score = event.score.value_or(0);
      text.error += event.error;
    }
  };
  while (engine.step()) collect();
  collect();
  return texts;
}

EngineRequest beam_request_of(const Model& model, TokenIds prompt, const std::string& options) {
  EngineRequest request{.prompt = std::move(prompt)};
  request.config.update(options);
  if (model.config().get_string("model_type") == "bart") {
    request.prompt.attached = {{.tensors = {{"input_ids", Tensor::from(std::vector<int64_t>{5, 6, 7, 2}, {1, 4})},
                                            {"attention_mask", Tensor::from(std::vector<int64_t>{1, 1, 1, 1}, {1, 4})}},
                                .places = {}}};
    request.prompt.tokens.insert(request.prompt.tokens.begin(), 2);
    request.config.decoder_start_token_id = 2;
  }
  return request;
}

// What generate() gives, without the padding behind the end.
std::vector<std::pair<TokenIds, double>> generated(const Model& model, const EngineRequest& request) {
  GenerationConfig config = request.config;
  config.pad_token_id = -7;
  const GenerationOutput output = generate(model, request.prompt, config);
  std::vector<std::pair<TokenIds, double>> texts;
  for (size_t i = 0; i < output.sequences.size(); ++i) {
    TokenIds tokens = output.sequences[i];
    while (!tokens.empty() && tokens.back() == -7) tokens.pop_back();
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(request.prompt.tokens.size()));
    texts.emplace_back(std::move(tokens), output.scores[i]);
  }
  return texts;
}

class BeamSearches : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Model> model = Model::from_config(GetParam(), {.seed = 3});
  std::vector<EngineRequest> requests() const {
    std::vector<EngineRequest> list;
    for (size_t i = 0; i < kOptions.size(); ++i) {
      TokenIds prompt;
      for (size_t t = 0; t < 1 + 7 * i; ++t) prompt.push_back(static_cast<int64_t>((13 * t + 5 * i + 4) % 40));
      list.push_back(beam_request_of(*model, prompt, kOptions[i]));
    }
    return list;
  }
};

TEST_P(BeamSearches, WriteWhatGenerateWrites) {
  Engine engine(*model);
  std::map<uint64_t, EngineRequest> asked;
  for (const EngineRequest& request : requests()) asked[engine.add(request)] = request;
  const EndedTexts texts = ended_beams(engine);
  size_t compared = 0;
  for (const auto& [id, request] : asked) {
    const auto expected = generated(*model, request);
    for (size_t i = 0; i < expected.size(); ++i, ++compared) {
      const EndedText& text = texts.at({id, static_cast<int64_t>(i)});
      EXPECT_EQ(text.tokens, expected[i].first) << id << ' ' << i << ' ' << text.error;
      EXPECT_NEAR(text.score, expected[i].second, 1e-6 * std::max(100.0, std::abs(expected[i].second)))
          << id << ' ' << i;
    }
  }
  EXPECT_EQ(compared, texts.size());
  EXPECT_EQ(engine.statistics().blocks_used, 0);
}

TEST_P(BeamSearches, CompanyAndRoomChangeNothing) {
  std::vector<EndedTexts> alone;
  for (const EngineRequest& request : requests()) {
    Engine engine(*model);
    engine.add(request);
    alone.push_back(ended_beams(engine));
  }
  constexpr int64_t kSmall = 30 * 768;  // of llama: one whole text and a little more
  for (const auto& [cache_bytes, block_size, batched, caching] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, bool>>{
           {0, 16, 512, true}, {0, 4, 3, false}, {kSmall, 4, 7, true}, {kSmall, 4, 512, false}}) {
    Engine engine(*model, {.block_size = block_size,
                           .cache_bytes = cache_bytes,
                           .max_batched_tokens = batched,
                           .max_sequences = 9,
                           .prefix_caching = caching});
    std::vector<uint64_t> ids;
    for (const EngineRequest& request : requests()) {
      ids.push_back(engine.add(request));
      engine.add(beam_request_of(*model, {3, 4, 5}, R"({"max_new_tokens": 30})"));
    }
    const EndedTexts together = ended_beams(engine);
    for (size_t r = 0; r < ids.size(); ++r)
      for (const auto& [key, text] : alone[r])
        EXPECT_EQ(together.at({ids[r], key.second}), text)
            << r << " block size " << block_size << text.error << together.at({ids[r], key.second}).error;
    EXPECT_EQ(engine.statistics().blocks_used, 0);
    EXPECT_EQ(engine.statistics().running, 0);
    if (cache_bytes > 0 && engine.statistics().blocks > 0) {
      EXPECT_GT(engine.statistics().preemptions, 0);
    }
  }
}

TEST_P(BeamSearches, AreCancelled) {
  Engine engine(*model);
  const uint64_t id = engine.add(requests()[0]);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine.step());
  engine.cancel(id);
  const EndedTexts texts = ended_beams(engine);
  ASSERT_EQ(texts.size(), 4u);
  for (const auto& [key, text] : texts) EXPECT_EQ(text.finish, FinishReason::kCancelled);
  EXPECT_EQ(engine.statistics().blocks_used, 0);
}

std::string name_of(size_t index) { return std::vector<std::string>{"llama", "bloom", "bart"}.at(index); }
INSTANTIATE_TEST_SUITE_P(Models, BeamSearches, testing::Values(kLlama, kAlibiModel, kBart),
                         [](const auto& info) { return name_of(info.index); });

TEST(BeamRequests, AreRefusedWhereTheyCannotRun) {
  const auto model = Model::from_config(kLlama);
  Engine engine(*model, {.max_sequences = 4});
  const auto refused = [&](const std::string& options, const std::function<void(EngineRequest&)>& change = {}) {
    EngineRequest request = beam_request_of(*model, {1, 2}, options);
    if (change) change(request);
    return test::message_of([&] { engine.add(request); });
  };
  EXPECT_NE(refused(R"({"num_beams": 5})").find("num_beams = 5: at most 4"), std::string::npos);
  EXPECT_NE(refused(R"({"num_beams": 2, "num_return_sequences": 3})").find("more than num_beams"), std::string::npos);
  EXPECT_NE(refused(R"({"num_beams": 2})", [](EngineRequest& r) { r.prompt_lookup_num_tokens = 1; })
                .find("prompt_lookup_num_tokens"),
            std::string::npos);
  // A step that finds too few tokens fails that request alone.
  const uint64_t bad =
      engine.add(beam_request_of(*model, {1, 2}, R"({"num_beams": 2, "do_sample": true, "top_k": 1})"));
  const uint64_t good = engine.add(beam_request_of(*model, {1, 2}, R"({"num_beams": 2, "max_new_tokens": 4})"));
  const EndedTexts texts = ended_beams(engine);
  EXPECT_EQ(texts.at({good, 0}).finish, FinishReason::kLength);
  EXPECT_EQ(texts.count({bad, 0}), 1u);
}

TEST(BeamRequests, LeavePrefixesAloneWhereTheCacheCanGrow) {
  const auto model = Model::from_config(kLlama);
  Engine engine(*model, {.block_size = 4, .max_batched_tokens = 16});
  TokenIds prompt(16);
  std::iota(prompt.begin(), prompt.end(), 1);
  engine.add(beam_request_of(*model, prompt, R"({"max_new_tokens": 1})"));
  ended_beams(engine);
  engine.add(beam_request_of(*model, {30, 31}, R"({"num_beams": 6, "max_new_tokens": 3})"));
  ended_beams(engine);
  const int64_t hits = engine.statistics().prefix_hits;
  engine.add(beam_request_of(*model, prompt, R"({"max_new_tokens": 1})"));
  ended_beams(engine);
  EXPECT_EQ(engine.statistics().prefix_hits - hits, 12);  // all blocks but that of the last token
}

TEST(ForkedTexts, ShareWholeBlocksAndCopyTheLast) {
  BlockPool pool(6);
  std::vector<SequenceBlocks> texts(3);
  for (int i = 0; i < 2; ++i) texts[0].blocks.push_back(static_cast<int32_t>(pool.take()));
  texts[0].seen = 6;  // of two blocks of four
  texts[1].blocks.push_back(static_cast<int32_t>(pool.take()));
  texts[1].seen = 3;
  const std::vector<int32_t> first = texts[0].blocks;
  EXPECT_EQ(copies_of_fork(4, texts, {0, 0, 0}), 2);
  EXPECT_EQ(copies_of_fork(4, texts, {0, 1, 2}), 0);
  const BlockCopies copies = fork_sequences(pool, 4, texts, {0, 0, 0});
  EXPECT_EQ(texts[0].blocks, first);
  ASSERT_EQ(copies.size(), 2u);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(texts[i].blocks[0], first[0]);
    EXPECT_EQ(copies[i - 1], std::pair(first[1], texts[i].blocks[1]));
    EXPECT_EQ(texts[i].seen, 6);
  }
  EXPECT_EQ(pool.available(), 2);
  // Without room for copies texts begin anew, and nothing is lost.
  while (pool.available() > 0) pool.take();
  std::vector<SequenceBlocks> crowded{texts[0], {}};
  EXPECT_TRUE(fork_sequences(pool, 4, crowded, {0, 0}).empty());
  EXPECT_EQ(crowded[0].seen, 6);
  EXPECT_TRUE(crowded[1].blocks.empty());
  EXPECT_EQ(crowded[1].seen, 0);
}

}  // namespace
}  // namespace transom
