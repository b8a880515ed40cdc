// SPDX-License-Identifier: Apache-2.0
// One tensor under any of its names: of every class of the registry whose family ties a table and a head.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>

#include "base/error.h"
#include "base/json/json.h"
#include "files/checkpoint/checkpoint.h"
#include "files/checkpoint/safetensors.h"
#include "models/family.h"
#include "models/loading/family_names.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The names of all families for the same few extents.
Json small_fields() {
  Json fields = Json::object();
  const auto set = [&](std::initializer_list<const char*> names, int64_t value) {
    for (const char* name : names) fields[name] = value;
  };
  set({"vocab_size"}, 24);
  set({"hidden_size", "n_embd", "d_model", "dim", "word_embed_proj_dim"}, 16);
  set({"embedding_size", "d_kv", "head_dim", "num_mel_bins"}, 8);
  set({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"}, 1);
  set({"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"},
      2);
  set({"num_key_value_heads"}, 1);
  set({"intermediate_size", "hidden_dim", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"}, 32);
  set({"max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"}, 16);
  set({"pad_token_id", "decoder_start_token_id"}, 0);
  set({"eos_token_id"}, 1);
  set({"num_experts", "num_local_experts"}, 4);
  set({"num_experts_per_tok"}, 2);
  set({"moe_intermediate_size", "shared_expert_intermediate_size"}, 8);
  set({"image_size"}, 8);
  set({"patch_size"}, 4);
  return fields;
}

// The same of parts that have a configuration of their own.
Json small_part(const char* model_type) {
  Json fields = small_fields();
  fields["model_type"] = model_type;
  return fields;
}

Json of_class(const std::string& model_type, const std::string& name) {
  Json fields = small_fields();
  fields["text_config"] = small_part(model_type == "llava" ? "llama" : "clip_text_model");
  fields["vision_config"] = small_part("clip_vision_model");
  fields["image_token_index"] = 3;
  fields["model_type"] = model_type;
  fields["architectures"] = {name};
  fields["tie_word_embeddings"] = true;
  return fields;
}

class NoCheckpoint : public ParameterSource {
 public:
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape&, const Initial&) override {
    return std::make_shared<Parameter>(Parameter{name, {}});
  }
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type&, const Initial&) override {
    return std::make_shared<Parameter>(Parameter{name, {}});
  }
  void tied(const std::string&, const std::shared_ptr<Parameter>&, Tie) override {}
  void derived(const std::string&) override {}
  bool holds(const std::string&) const override { return false; }
};

std::vector<std::pair<std::string, std::string>> ties_of(const Family& family, const Architecture& architecture) {
  const std::string config = dump_json(of_class(family.model_type, architecture.name));
  return tied_names(family, Config::parse(config, "config.json"), NoCheckpoint());
}

class TiedWeights : public testing::Test {
 protected:
  // Writes tensors beside the configuration that is there.
  void write(const NamedViews& tensors, uint64_t max_shard_bytes = 1 << 30) {
    save_checkpoint(folder_, tensors, max_shard_bytes);
  }

  void expect_same(const Model& model, const std::string& what) {
    LoadReport report;
    const auto loaded = Model::from_pretrained(folder_.string(), {}, &report);
    EXPECT_TRUE(report.missing.empty()) << what << ": " << report.missing[0];
    EXPECT_TRUE(report.unexpected.empty()) << what << ": " << report.unexpected[0];
    ASSERT_EQ(loaded->parameters().size(), model.parameters().size()) << what;
    std::map<std::string, std::shared_ptr<Parameter>> by_name;
    for (const auto& parameter : loaded->parameters()) by_name[parameter->name] = parameter;
    for (const auto& parameter : model.parameters()) {
      // A table that stands for several places has the name of the place where it was found.
      if (!by_name.contains(parameter->name)) continue;
      EXPECT_EQ(by_name[parameter->name]->value.to_bytes(), parameter->value.to_bytes())
          << what << ": " << parameter->name;
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(TiedWeights, AreReadUnderEachOfTheirNamesByEveryClassOfTheirFamily) {
  std::set<std::string> families_with_ties;
  int64_t tried = 0;
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures) {
      const auto ties = ties_of(family, architecture);
      if (ties.empty()) continue;
      const auto model = Model::from_config(dump_json(of_class(family.model_type, architecture.name)));
      for (const auto& parameter : model->parameters()) {  // biases, too, are told apart
        const int64_t count = parameter->value.size();
        std::vector<float> values(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i)
          values[static_cast<size_t>(i)] = static_cast<float>((i * 37 + tried) % 101) / 101;
        parameter->value = Tensor::from(values, parameter->value.shape());
      }
      model->save_pretrained(folder_.string());
      const NamedViews stored = SafetensorsFile::open(folder_ / "model.safetensors").tensors();
      for (const auto& [one, other] : ties)
        for (size_t i = 0; i < stored.size(); ++i) {
          const std::vector<std::string> names = names_in_checkpoints(stored[i].first, family);
          const auto is = [&names = names](const std::string& name) {
            return std::find(names.begin(), names.end(), name) != names.end();
          };
          if (!is(one) && !is(other)) continue;
          ++tried;
          const std::string& second = is(one) ? other : one;
          const auto holds = [&](const auto& item) { return item.first == second; };
          if (std::any_of(stored.begin(), stored.end(), holds)) continue;
          const std::string what = architecture.name + ": " + stored[i].first + " as " + second;
          NamedViews renamed = stored;
          renamed[i].first = second;
          write(renamed);
          expect_same(*model, what);
          if (!families_with_ties.insert(family.model_type).second) continue;
          write(renamed, 4096);
          expect_same(*model, what + ", in shards");
        }
    }
  // All text families but those of CLIP, and Whisper.
  EXPECT_GE(families_with_ties.size(), 27u) << fmt::format("{}", fmt::join(families_with_ties, " "));
  EXPECT_GE(tried, 150);
}

TEST_F(TiedWeights, BothNamesWithOneValueAreNoSurprise) {
  const auto model = Model::from_config(dump_json(of_class("gpt2", "GPT2LMHeadModel")));
  model->save_pretrained(folder_.string());
  NamedViews stored = SafetensorsFile::open(folder_ / "model.safetensors").tensors();
  for (const auto& [name, view] : NamedViews(stored))
    if (name == "transformer.wte.weight") stored.emplace_back("lm_head.weight", view);
  write(stored);
  expect_same(*model, "both");
}

// What safetensors.torch.save_model says in the metadata, also of names that no class ties.
TEST_F(TiedWeights, AreReadUnderTheNamesThatTheMetadataTells) {
  const auto model = Model::from_config(dump_json(of_class("bert", "BertModel")));
  model->save_pretrained(folder_.string());
  NamedViews stored = SafetensorsFile::open(folder_ / "model.safetensors").tensors();
  const auto weight = std::find_if(stored.begin(), stored.end(), [](const auto& item) {
    return item.first == "encoder.layer.0.attention.self.query.weight";
  });
  ASSERT_NE(weight, stored.end());
  weight->first = "a.weight.of.another.name";
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"encoder.layer.0.attention.self.query.weight", "a.weight.of.another.name"}};
  write_safetensors(folder_ / "model.safetensors", stored, metadata);
  LoadReport report;
  const auto loaded = Model::from_pretrained(folder_.string(), {}, &report);
  EXPECT_TRUE(report.missing.empty());
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"a.weight.of.another.name"});
}

// As Transformers 5.24 (tie_weights): a table and a head of different values are two tensors, whatever the
// configuration says.
TEST_F(TiedWeights, DifferentValuesAreReadAsTheyAre) {
  struct Case {
    const char *type, *name, *table, *head;
  };
  for (const Case& each :
       {Case{"gpt2", "GPT2LMHeadModel", "transformer.wte.weight", "lm_head.weight"},
        Case{"llama", "LlamaForCausalLM", "model.embed_tokens.weight", "lm_head.weight"},
        Case{"bart", "BartForConditionalGeneration", "model.shared.weight", "lm_head.weight"},
        Case{"opt", "OPTForCausalLM", "model.decoder.embed_tokens.weight", "lm_head.weight"},
        Case{"t5", "T5ForConditionalGeneration", "shared.weight", "lm_head.weight"},
        Case{"bert", "BertForMaskedLM", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"}}) {
    const auto model = Model::from_config(dump_json(of_class(each.type, each.name)));
    model->save_pretrained(folder_.string());
    NamedViews stored = SafetensorsFile::open(folder_ / "model.safetensors").tensors();
    const std::vector<float> head(24 * 16, 0.25f);
    for (const auto& [name, view] : NamedViews(stored))
      if (name == each.table)
        stored.emplace_back(each.head, TensorView{DType::kFloat32, {24, 16}, std::as_bytes(std::span(head)), nullptr});
    write(stored);
    LoadReport report;
    const auto loaded = Model::from_pretrained(folder_.string(), {}, &report);
    EXPECT_TRUE(report.missing.empty()) << report.missing[0];
    int found = 0;
    for (const auto& parameter : loaded->parameters()) {
      if (parameter->name != each.head && parameter->name != each.table) continue;
      EXPECT_EQ(parameter->value.to_vector<float>() == head, parameter->name == each.head) << parameter->name;
      ++found;
    }
    EXPECT_EQ(found, 2) << each.name;
  }
}

TEST_F(TiedWeights, OfTwoBiasesTheDecodersCounts) {
  const auto model = Model::from_config(dump_json(of_class("bert", "BertForMaskedLM")));
  model->save_pretrained(folder_.string());
  NamedViews stored = SafetensorsFile::open(folder_ / "model.safetensors").tensors();
  const std::vector<float> bias(24, 0.5f);
  stored.emplace_back("cls.predictions.decoder.bias",
                      TensorView{DType::kFloat32, {24}, std::as_bytes(std::span(bias)), nullptr});
  write(stored);
  const auto loaded = Model::from_pretrained(folder_.string());
  for (const auto& parameter : loaded->parameters())
    if (parameter->name == "cls.predictions.bias") {
      EXPECT_EQ(parameter->value.to_vector<float>(), bias);
    }
}

}  // namespace
}  // namespace transom
