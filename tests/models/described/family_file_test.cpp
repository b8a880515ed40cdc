// SPDX-License-Identifier: Apache-2.0
// Families that are read from files: options and their errors, what a file says of a configuration, and files that are
// wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/shared_data.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/described/described_family.h"
#include "models/described/described_plan.h"
#include "models/described/family_report.h"
#include "models/described/option_values.h"
#include "support/folders.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace transom {
namespace {

Json parsed(const std::string& text) { return parse_json(text, "a test"); }

// A small family; tests change what they are about.
Json plum() {
  return parsed(R"({"transom_family": 1, "model_type": "plum", "about": "a test",
      "classes": {"PlumForCausalLM": "causal-lm"},
      "defaults": {"vocab_size": 12, "hidden_size": 8, "intermediate_size": 10, "num_hidden_layers": 3,
                   "num_attention_heads": 2, "num_key_value_heads": null, "hidden_act": "silu",
                   "initializer_range": 0.02, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                   "attention_dropout": 0, "max_position_embeddings": 32, "stride": 2, "kinds": null},
      "decoder": {"rotary": {}}})");
}

DecoderPlan plan_for(const Json& file, const std::string& config) {
  return described_plan(file, Config::parse(config, "config.json"));
}

Json value_of(const Json& option, std::optional<int64_t> layer = 1, const std::string& config = "{}") {
  Json file = plum();
  file["values"] =
      parsed(R"({"half": {"whole_quotient": ["$hidden_size", 2]}, "hidden_size": {"sum": ["$hidden_size", 1]}})");
  const Config fields = Config::parse(config, "config.json");
  return OptionValues(file, fields).value(option, {"an option", layer});
}

TEST(FamilyFile, OptionsAreConstantsFieldsOrOperations) {
  EXPECT_EQ(value_of(7), 7);
  EXPECT_EQ(value_of("$stride"), 2);
  EXPECT_EQ(value_of("$stride", 1, R"({"stride": 5})"), 5);
  EXPECT_EQ(value_of("$layer"), 1);
  EXPECT_EQ(value_of("$half"), 4);         // of the value hidden_size, 9
  EXPECT_EQ(value_of("$hidden_size"), 9);  // made of the field of its name
  EXPECT_EQ(value_of(parsed(R"({"first": ["$kinds", "$stride"]})")), 2);
  EXPECT_EQ(value_of(parsed(R"({"if": [{"less": ["$layer", 2]}, "before", "behind"]})")), "before");
  EXPECT_EQ(value_of(parsed(R"({"quotient": [1, 4]})")), 0.25);
  EXPECT_EQ(value_of(parsed(R"({"at": ["ME*-", "$layer"]})")), "E");
  EXPECT_EQ(value_of(parsed(R"({"length": "$kinds"})"), 1, R"({"kinds": [0, 0, 0]})"), 3);
  EXPECT_EQ(value_of(parsed(R"({"length": "$kinds"})")), nullptr);
  EXPECT_EQ(value_of(parsed(R"({"remainder": [-1, 4]})")), 3);
  EXPECT_EQ(value_of(parsed(R"({"power": [4, -0.5]})")), 0.5);
  EXPECT_EQ(value_of(parsed(R"({"all": [true, 1, {"not": null}]})")), true);
  EXPECT_EQ(value_of(parsed(R"({"any": [false, null, 0]})")), false);
  EXPECT_EQ(value_of(parsed(R"({"at": [["a", "b"], "$layer"]})")), "b");
  EXPECT_EQ(value_of(parsed(R"({"at": [{"unrolled": [[[["a", "b"], 2]]]}, 2]})")), "a");
  EXPECT_EQ(value_of(parsed(R"({"equal": [1, 1.0]})")), true);
  EXPECT_EQ(value_of(parsed(R"({"among": ["$layer", [0, 1]]})")), true);
  EXPECT_EQ(value_of(parsed(R"({"among": ["$layer", "$kinds"]})")), false);
  EXPECT_EQ(value_of(parsed(R"({"one_of": ["$stride", 1, 2]})")), 2);
  EXPECT_EQ(value_of("$kinds", 1, R"({"kinds": [0, {"__float__": "Infinity"}]})").size(), 2u);
  EXPECT_EQ(
      value_of(parsed(R"({"infinite": {"at": ["$kinds", 1]}})"), 1, R"({"kinds": [0, {"__float__": "Infinity"}]})"),
      true);
  EXPECT_EQ(value_of(parsed(R"({"infinite": 3})")), false);
  // What is not looked at is not computed.
  EXPECT_EQ(value_of(parsed(R"({"if": [true, 1, {"quotient": [1, 0]}]})")), 1);
}

TEST(FamilyFile, OptionsThatCannotBeComputedAreErrors) {
  const auto refused = [](const char* option) { return test::message_of([&] { value_of(parsed(option)); }); };
  EXPECT_NE(refused(R"({"quotient": [1, 0]})").find("a division by 0"), std::string::npos);
  EXPECT_NE(refused(R"({"sum": [1, "x"]})").find("expected a number"), std::string::npos);
  EXPECT_NE(refused(R"({"at": [[1], 3]})").find("more than 3 elements"), std::string::npos);
  EXPECT_NE(refused(R"({"conjured": [1, 2]})").find("unknown operator"), std::string::npos);
  EXPECT_NE(refused(R"({"one_of": ["conv", "full_attention", 7]})").find("expected one of"), std::string::npos);
  EXPECT_NE(refused(R"({"among": [1, 2]})").find("expected a list"), std::string::npos);
  EXPECT_NE(refused(R"({"not": "yes"})").find("expected true or false"), std::string::npos);
  EXPECT_THROW(value_of("$layer", std::nullopt), Error);
}

// A file from outside can double its work at each step.
TEST(FamilyFile, OptionsThatNeverEndAreErrors) {
  Json file = plum();
  for (int i = 0; i < 40; ++i)
    file["values"][fmt::format("v{}", i)] = parsed(fmt::format(R"({{"sum": ["$v{0}", "$v{0}"]}})", i + 1));
  const Config config = Config::parse("{}", "config.json");
  EXPECT_THROW(OptionValues(file, config).value("$v0", {"an option"}), Error);
}

TEST(FamilyFile, DescribesADecoder) {
  Json file = plum();
  file["decoder"]["attention"] = parsed(R"({"window": {"if": [{"remainder": ["$layer", "$stride"]}, 4, 0]}})");
  file["decoder"]["residual_multiplier"] = parsed(R"({"quotient": [1, "$num_hidden_layers"]})");
  const DecoderPlan plan = plan_for(file, R"({"num_hidden_layers": 4, "num_key_value_heads": 1})");
  ASSERT_EQ(plan.blocks.size(), 4u);
  EXPECT_EQ(plan.blocks[0].attention.window, 0);
  EXPECT_EQ(plan.blocks[1].attention.window, 4);
  EXPECT_EQ(plan.blocks[0].attention.key_value_heads, 1);
  EXPECT_EQ(plan.blocks[0].residual_multiplier, 0.25);
  EXPECT_EQ(plan.blocks[0].attention.scale, 0.5);
  EXPECT_EQ(plan.rotary.size(), 1u);
  EXPECT_EQ(plan.traits.vocab_size, 12);
}

TEST(FamilyFile, DescribesLayersWithStatesBesideAttention) {
  Json file = plum();
  file["decoder"]["mixer"] = parsed(R"({"when": {"equal": [{"at": ["$kinds", "$layer"]}, "conv"]},
      "kind": "short_convolution", "module": "conv", "taps": 3})");
  const DecoderPlan plan = plan_for(file, R"({"kinds": ["conv", "other", "conv"]})");
  ASSERT_TRUE(plan.blocks[0].mixer && plan.blocks[2].mixer);
  EXPECT_EQ(plan.blocks[0].mixer->states, 1u);
  EXPECT_FALSE(plan.blocks[1].mixer);
  EXPECT_FALSE(plan_for(file, R"({})").blocks[0].mixer);
  file["decoder"]["mixer"]["kind"] = "conjured";
  EXPECT_NE(findings_of_family(file), std::vector<std::string>());
  file["decoder"]["mixer"] = parsed(R"({"kind": "mamba2", "module": "mamba", "taps": 4, "heads": 2, "head_size": 0,
      "state": 3})");
  EXPECT_NE(test::message_of([&] { plan_for(file, "{}"); }).find("decoder.mixer.head_size: expected 1 to"),
            std::string::npos);
  file["decoder"]["mixer"] = parsed(R"({"kind": "gated_delta", "module": "delta", "taps": 4, "heads": 2,
      "head_size": 4, "state": 4, "bias": true})");
  EXPECT_EQ(findings_of_family(file).at(0), "decoder.mixer.bias: a mixer of kind gated_delta does not read it");
  file["decoder"]["mixer"].erase("bias");
  file["decoder"]["attention"] = parsed(R"({"gated": true, "fused": {"module": "qkv"}})");
  EXPECT_NE(findings_of_family(file), std::vector<std::string>());
}

TEST(FamilyFile, DescribesLayersThatReadTheKeysOfOthers) {
  Json file = plum();
  file["decoder"]["attention"]["shared"] =
      parsed(R"({"when": {"not": {"less": ["$layer", 2]}}, "kind": {"at": ["$kinds", "$layer"]}})");
  const DecoderPlan plan = plan_for(file, R"({"num_hidden_layers": 4, "kinds": ["a", "b", "a", "b"]})");
  EXPECT_FALSE(plan.blocks[0].attention.keys_of || plan.blocks[1].attention.keys_of);
  EXPECT_EQ(plan.blocks[2].attention.keys_of, size_t{0});
  EXPECT_EQ(plan.blocks[3].attention.keys_of, size_t{1});
  const std::string nobody = test::message_of([&] { plan_for(file, R"({"kinds": ["a", "a", "b"]})"); });
  EXPECT_NE(nobody.find("layer 2 reads the keys and values of a layer before it"), std::string::npos) << nobody;
  file["decoder"]["attention"]["fused"] = parsed(R"({"module": "qkv"})");
  EXPECT_EQ(findings_of_family(file).at(0), "decoder.attention: shared and fused are not carried out together");
}

TEST(FamilyFile, SingleLayersHaveFieldsOfTheirOwn) {
  Json file = plum();
  file["layer_fields"] = parsed(R"(["num_key_value_heads"])");
  file["defaults"]["per_layer_config"] = nullptr;
  const DecoderPlan plan = plan_for(file, R"({"per_layer_config": {"1": {"num_key_value_heads": 1}}})");
  EXPECT_EQ(plan.blocks[0].attention.key_value_heads, 2);
  EXPECT_EQ(plan.blocks[1].attention.key_value_heads, 1);
  const auto refused = [&](const char* config) { return test::message_of([&] { plan_for(file, config); }); };
  EXPECT_NE(
      refused(R"({"per_layer_config": {"1": {"hidden_size": 4}}})").find("'hidden_size' = '4' is not carried out"),
      std::string::npos);
  EXPECT_NE(refused(R"({"per_layer_config": {"1": 4}})").find("expected an object"), std::string::npos);
  EXPECT_NE(refused(R"({"per_layer_config": [4]})").find("expected an object"), std::string::npos);
}

TEST(FamilyFile, WhatIsNotKnownOfTheConfigurationIsRefused) {
  const auto refused = [](const Json& file, const char* config) {
    return test::message_of([&] { plan_for(file, config); });
  };
  EXPECT_NE(refused(plum(), R"({"juice": 3})").find("'juice' = '3' is not known of this family"), std::string::npos);
  EXPECT_EQ(refused(plum(), R"({"juice": null, "_note": 1, "use_cache": true})"), "");
  // Known of others, and of effect there.
  EXPECT_NE(refused(plum(), R"({"attn_logit_softcapping": 30})").find("attn_logit_softcapping"), std::string::npos);
  EXPECT_EQ(refused(plum(), R"({"attn_logit_softcapping": 0})"), "");
  EXPECT_NE(refused(plum(), R"({"rope_scaling": {"rope_type": "default", "twist": 2}})").find("twist"),
            std::string::npos);
  Json file = plum();
  file["fixed"] = parsed(R"({"seeds": [1, 2]})");
  file["ignored"] = parsed(R"(["juice"])");
  file["aliases"] = parsed(R"({"n_layer": "num_hidden_layers"})");
  EXPECT_EQ(refused(file, R"({"seeds": 2, "juice": 3, "n_layer": 1})"), "");
  EXPECT_NE(refused(file, R"({"seeds": 3})").find("only"), std::string::npos);
  EXPECT_NE(refused(file, R"({"n_layer": 1, "num_hidden_layers": 2})").find("one field"), std::string::npos);
  EXPECT_EQ(plan_for(file, R"({"n_layer": 1})").blocks.size(), 1u);
}

std::vector<std::string> findings_with(const std::string& path, const std::string& value) {
  Json file = plum();
  file[Json::json_pointer(path)] = parsed(value);
  return findings_of_family(file);
}

TEST(FamilyFile, FindingsNameWhatIsWrong) {
  EXPECT_EQ(findings_of_family(plum()), std::vector<std::string>{});
  const auto first = [](const std::string& path, const std::string& value) {
    const auto findings = findings_with(path, value);
    return findings.empty() ? std::string() : findings[0];
  };
  EXPECT_EQ(first("/colour", R"("red")"), "'colour': unknown.");
  EXPECT_NE(first("/decoder/atention", "{}").find("did you mean 'attention'"), std::string::npos);
  EXPECT_NE(first("/decoder/attention", R"({"scale": true})").find("expected a number"), std::string::npos);
  EXPECT_NE(first("/decoder/attention", R"({"heads": "$num_heads"})").find("neither among the values"),
            std::string::npos);
  EXPECT_NE(first("/decoder/norm", R"({"kind": "batch"})").find("expected one of rms layer"), std::string::npos);
  EXPECT_NE(first("/decoder/alibi", "{}").find("contradict each other"), std::string::npos);
  EXPECT_NE(first("/decoder/takes_positions", "false").find("need position_ids"), std::string::npos);
  EXPECT_NE(first("/decoder/embeddings", R"({"padding": "$layer"})").find("of layers alone"), std::string::npos);
  EXPECT_NE(first("/classes/PlumModel", R"("heart")").find("expected one of"), std::string::npos);
  EXPECT_NE(first("/transom_family", "2").find("expected 1"), std::string::npos);
  Json silent = plum();
  silent["decoder"].erase("rotary");
  EXPECT_NE(findings_of_family(silent).at(0).find("knows no positions"), std::string::npos);
  Json bare = plum();
  bare.erase("classes");
  EXPECT_EQ(findings_of_family(bare), std::vector<std::string>{"classes is missing"});
  EXPECT_THROW(findings_of_family(Json::array()), Error);
}

TEST(FamilyFile, ReportsMakeEachClassOfTheDefaults) {
  const test::TemporaryFolder folder;
  const auto report = [&](const Json& file) {
    std::ofstream(folder.path() / "plum.json") << file.dump();
    return report_on_family(folder.path() / "plum.json");
  };
  const FamilyReport right = report(plum());
  EXPECT_TRUE(right.findings.empty());
  EXPECT_NE(
      std::find(right.parameters.begin(), right.parameters.end(), "model.layers.0.self_attn.q_proj.weight [8, 8]"),
      right.parameters.end());
  Json file = plum();
  file["lora_targets"] = parsed(R"(["query"])");
  EXPECT_EQ(report(file).findings, std::vector<std::string>{"lora_targets: no module ends with 'query'"});
  file = plum();
  file["defaults"]["num_attention_heads"] = 3;
  file["defaults"]["num_key_value_heads"] = 2;
  EXPECT_EQ(report(file).findings.size(), 1u);
  file = plum();
  file["decoder"]["feed_forward"] = parsed(R"({"up": "mlp.gate_proj"})");
  EXPECT_NE(report(file).findings.at(0).find("two modules have this name"), std::string::npos);
}

// Those of the library.
TEST(FamilyFile, FilesOfTheLibraryAreWhole) {
  const auto folder = shared_data("families");
  ASSERT_TRUE(folder);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    const FamilyReport report = report_on_family(entry.path());
    EXPECT_EQ(report.findings, std::vector<std::string>{}) << entry.path();
    EXPECT_EQ(entry.path().stem().string(), report.model_type);
    ++files;
  }
  EXPECT_GE(files, 2);
}

TEST(FamilyFile, TheGuideShowsAWholeFile) {
  const std::string page = read_file(fs::path(test::source_folder()) / "docs/guide/a-family-as-data.md"),
                    file = read_file(fs::path(test::source_folder()) / "share/transom/families/arcee.json");
  EXPECT_NE(page.find("```json\n" + file + "```"), std::string::npos);
}

TEST(FamilyFile, ModelsOfTheLibrarysFilesRefuseUnknownFields) {
  EXPECT_NE(test::message_of([] {
              Model::from_config(R"({"model_type": "granite", "vocab_size": 8, "hidden_size": 8,
      "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8, "key_multiplier": 2})");
            }).find("key_multiplier"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
