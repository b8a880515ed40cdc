// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/shape/layer_facts.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "tools/plan/shape/model_shape.h"

namespace transom {
namespace {

// Widths that no two of which are equal.
const LayerStack kWidths{
    .layers = 6, .hidden = 96, .heads = 4, .key_value_heads = 4, .head_dim = 24, .intermediate = 160};

LayerFacts facts_of(const std::string& type, Json fields = Json::object()) {
  fields["model_type"] = type;
  return layer_facts(fields, type, kWidths);
}

// As the papers have the layers.
TEST(LayerFacts, FollowFromTheParametersOfTheFamilysClasses) {
  struct Case {
    const char* type;
    bool causal, gated, tied;
    double norms;
  };
  for (const Case& c : {Case{"llama", true, true, false, 2},       Case{"mistral", true, true, false, 2},
                        Case{"mixtral", true, true, false, 2},     Case{"qwen2", true, true, false, 2},
                        Case{"qwen3", true, true, false, 4},       Case{"gemma", true, true, true, 2},
                        Case{"gemma2", true, true, true, 4},       Case{"gemma3_text", true, true, true, 6},
                        Case{"phi3", true, true, false, 2},        Case{"starcoder2", true, false, true, 2},
                        Case{"gpt2", true, false, true, 2},        Case{"gpt_bigcode", true, false, true, 2},
                        Case{"gpt_neox", true, false, false, 2},   Case{"opt", true, false, true, 2},
                        Case{"bloom", true, false, true, 2},       Case{"bert", false, false, true, 2},
                        Case{"roberta", false, false, true, 2},    Case{"distilbert", false, false, true, 2},
                        Case{"electra", false, false, true, 2},    Case{"mpnet", false, false, true, 2},
                        Case{"deberta-v2", false, false, true, 2}, Case{"modernbert", false, true, true, 2}}) {
    const LayerFacts facts = facts_of(c.type);
    EXPECT_EQ(facts.kind, ModelKind::kText) << c.type;
    EXPECT_EQ(facts.causal, c.causal) << c.type;
    EXPECT_EQ(facts.gated, c.gated) << c.type;
    EXPECT_EQ(facts.tied, c.tied) << c.type;
    EXPECT_EQ(facts.norms, c.norms) << c.type;
    EXPECT_FALSE(facts.shared) << c.type;
  }
}

TEST(LayerFacts, TellSharedLayersAndKindsOfInputs) {
  EXPECT_TRUE(facts_of("albert").shared);
  EXPECT_EQ(facts_of("vit").kind, ModelKind::kPictures);
  EXPECT_EQ(facts_of("wav2vec2").kind, ModelKind::kSamples);
  EXPECT_EQ(facts_of("audio-spectrogram-transformer").kind, ModelKind::kSpectra);
  for (const char* type : {"t5", "bart", "marian", "whisper"}) {
    EXPECT_EQ(facts_of(type).kind, ModelKind::kTwoStacks) << type;
    EXPECT_EQ(facts_of(type).norms, 2) << type << ": a layer of the encoder";
  }
  EXPECT_EQ(facts_of("clip").kind, ModelKind::kTwoTowers);
  EXPECT_EQ(facts_of("clip").text_tokens, 77);
  const LayerFacts llava = facts_of("llava");  // a decoder that sees pictures is a decoder
  EXPECT_EQ(llava.kind, ModelKind::kText);
  EXPECT_TRUE(llava.causal && llava.gated);
  for (const char* mixture : {"qwen2_moe", "qwen3_moe", "olmoe"}) EXPECT_TRUE(facts_of(mixture).gated) << mixture;
  EXPECT_EQ(frames_of_sound({{"max_source_positions", 1500}}, "whisper"), 1500);
  EXPECT_EQ(frames_of_sound(Json::object(), "bart"), 0);
}

// What no class here loads is known by its type's name alone.
TEST(LayerFacts, OfTypesWithoutARecordFollowFromTheirNames) {
  EXPECT_TRUE(facts_of("chatglm").gated);
  EXPECT_EQ(facts_of("deepseek").shared_experts, 2);
  EXPECT_TRUE(facts_of("gemma3n").tied);
  EXPECT_FALSE(facts_of("conformer").causal);
  EXPECT_EQ(facts_of("mt5").kind, ModelKind::kTwoStacks);
  EXPECT_EQ(facts_of("bridgetower").text_tokens, 50);
  EXPECT_TRUE(facts_of("").gated);
}

}  // namespace
}  // namespace transom
