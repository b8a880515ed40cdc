// SPDX-License-Identifier: Apache-2.0
// Heads for drafts beside what their layers give in float64 (tests/golden/make/draft_heads.py and draft_layers.py).
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "models/drafts/draft_head.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

struct Loaded {
  std::unique_ptr<Model> model;
  std::unique_ptr<DraftHead> head;
};

// A case without a model is for that of "eagle3".
Loaded loaded(const std::filesystem::path& folder) {
  const auto of_model = folder / "model", own = folder / "head";
  const auto model = std::filesystem::exists(of_model) ? of_model : folder.parent_path() / "eagle3" / "model";
  Loaded all{Model::from_pretrained(model.string()), nullptr};
  const auto& writer = dynamic_cast<const GenerativeModel&>(*all.model);
  all.head = std::filesystem::exists(own) ? load_eagle3_head(own.string(), writer, {})
                                          : load_mtp_head(model.string(), writer, {});
  return all;
}

void expect_near(const Tensor& found, const Tensor& expected, const char* what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const std::vector<float> a = found.to_vector<float>(), b = expected.to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 + 2e-5 * std::abs(b[i])) << what << ' ' << i;
}

class DraftHeads : public testing::TestWithParam<std::string> {};

TEST_P(DraftHeads, GiveWhatTheirLayersGive) {
  const auto folder = test::folder_of_case(GetParam(), test::GoldenSet::kLibraries, "drafting");
  const NoGradient inference;
  const Loaded all = loaded(folder);
  const NamedTensors values = load_inputs(folder / "case.safetensors");
  const auto tensor = [&](const char* name) { return values.at(name); };
  const Tensor ids = tensor("ids"), positions = tensor("positions");
  ForwardContext context{.computing = all.model->computing()};
  const DraftHead::Predicted first = (*all.head)(ids, positions, tensor("states"), true, ids.dim(1), context);
  expect_near(first.logits, tensor("logits"), "logits");
  expect_near(first.states, tensor("own"), "states");
  const DraftHead::Predicted second =
      (*all.head)(ids, positions, unsqueeze(tensor("own"), 0), false, ids.dim(1), context);
  expect_near(second.logits, tensor("next_logits"), "logits of its own states");
  expect_near(second.states, tensor("next_own"), "its own states");
}

INSTANTIATE_TEST_SUITE_P(Golden, DraftHeads,
                         testing::ValuesIn(test::golden_cases("case.safetensors", test::GoldenSet::kLibraries,
                                                              "drafting")),
                         test::NameOfCase());

class Eagle3 : public testing::Test {
 protected:
  const std::filesystem::path folder = test::folder_of_case("eagle3", test::GoldenSet::kLibraries, "drafting");
  const std::unique_ptr<Model> model = Model::from_pretrained((folder / "model").string());
  std::string refused(const Json& changes, const char* name = "eagle3") const {
    const test::TemporaryFolder other;
    std::filesystem::copy(folder.parent_path() / name / "head", other.path(), std::filesystem::copy_options::recursive);
    Json config = parse_json(read_file(other / "config.json"), "config");
    config.merge_patch(changes);
    write_file(other / "config.json", dump_json(config));
    return test::message_of(
        [&] { load_eagle3_head(other.string(), dynamic_cast<const GenerativeModel&>(*model), {}); });
  }
};

TEST_F(Eagle3, ItsTokensAreThoseOfD2t) {
  const auto head = load_eagle3_head((folder / "head").string(), dynamic_cast<const GenerativeModel&>(*model), {});
  EXPECT_EQ(head->reads(), (std::vector<size_t>{2, 3, 3}));
  int64_t before = -1;
  for (int64_t row = 0; row < 24; ++row) {
    EXPECT_GT(head->token_of(row), before);
    before = head->token_of(row);
  }
  EXPECT_LT(before, 40);
}

TEST_F(Eagle3, RefusesWhatItDoesNotCarryOut) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {R"({"num_hidden_layers": 2})", "one layer"},
      {R"({"draft_vocab_size": 30})", "shape"},
      {R"({"hidden_size": 24})", "states of 24 numbers, the model has 16"},
      {R"({"target_hidden_size": 16, "hidden_size": 24})", "shape"},
      {R"({"vocab_size": 50})", "for 50 tokens, the model has 40"},
      {R"({"hidden_size": 4000000000})", "hidden_size"},
      {R"({"some_new_key": 1})", "some_new_key"},
      {R"({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 99]}})", "2, 3, 100"},
      {R"({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 5]}})", "2, 3, 6"},
      {R"({"eagle_config": {"parallel": true}})", "parallel"},
      {R"({"eagle_config": {"use_mtp_layernorm": true}})", "use_mtp_layernorm"},
      {R"({"target_hidden_size": 32})", "target_hidden_size"},
      {R"({"layer_types": ["sliding_attention"]})", "layer_types"},
      {R"({"use_sliding_window": true})", "use_sliding_window"}};
  for (const auto& each : cases)
    EXPECT_NE(refused(parse_json(each.first, "changes")).find(each.second), std::string::npos)
        << each.first << ": " << refused(parse_json(each.first, "changes"));
}

TEST_F(Eagle3, RefusesWhatItDoesNotCarryOutOfSpeculators) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {R"({"fc_norm": true})", "fc_norm"},
      {R"({"norm_before_fc": false})", "input_norm"},
      {R"({"transformer_layer_config": {"num_hidden_layers": 2}})", "one layer"},
      {R"({"transformer_layer_config": {"clip_qkv": 3}})", "clip_qkv"}};
  for (const auto& each : cases) {
    const std::string found = refused(parse_json(each.first, "changes"), "eagle3-speculators");
    EXPECT_NE(found.find(each.second), std::string::npos) << each.first << ": " << found;
  }
}

// In eagle_config the numbers are of outputs, at the top of inputs.
TEST_F(Eagle3, ReadsTheLayersThatItsConfigurationNames) {
  const auto reads = [&](const char* changes) {
    const test::TemporaryFolder other;
    std::filesystem::copy(folder / "head", other.path(), std::filesystem::copy_options::recursive);
    Json config = parse_json(read_file(other / "config.json"), "config");
    config.merge_patch(parse_json(changes, "changes"));
    write_file(other / "config.json", dump_json(config));
    return load_eagle3_head(other.string(), dynamic_cast<const GenerativeModel&>(*model), {})->reads();
  };
  const std::vector<size_t> expected{1, 3, 5};
  EXPECT_EQ(reads(R"({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 2, 4], "use_aux_hidden_state": true}})"),
            expected);
  EXPECT_EQ(reads(R"({"eagle_aux_hidden_state_layer_ids": [1, 3, 5]})"), expected);
  EXPECT_EQ(reads(R"({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [], "use_last_layernorm": true}})"),
            (std::vector<size_t>{2, 3, 3}));
}

TEST_F(Eagle3, ACheckpointWithoutAHeadIsNamed) {
  EXPECT_NE(test::message_of([&] {
              load_mtp_head((folder / "model").string(), dynamic_cast<const GenerativeModel&>(*model), {});
            }).find("multi-token prediction"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
