// SPDX-License-Identifier: Apache-2.0
// Files that hold the experts of a layer in two tensors, as Transformers 5 writes them where it is asked to.
#include "models/shared/mixtures/fused_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/checkpoint.h"
#include "support/golden_cases.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

TEST(FusedExperts, PlacesAreThoseOfTheirParts) {
  const auto up = fused_expert("model.layers.3.mlp.experts.5.up_proj.weight");
  ASSERT_TRUE(up);
  EXPECT_EQ(up->tensor, "model.layers.3.mlp.experts.gate_up_proj");
  EXPECT_EQ(up->expert, 5);
  EXPECT_EQ(up->part, 1);
  EXPECT_EQ(up->parts, 2);
  const auto down = fused_expert("model.layers.0.block_sparse_moe.experts.12.w2.weight");
  ASSERT_TRUE(down);
  EXPECT_EQ(down->tensor, "model.layers.0.block_sparse_moe.experts.down_proj");
  EXPECT_EQ(down->expert, 12);
  EXPECT_EQ(down->parts, 1);
  for (const char* other : {"model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.experts.gate.weight",
                            "model.layers.0.mlp.experts.1.weight", "model.layers.0.mlp.experts.1.other.weight",
                            "model.layers.0.mlp.experts.1", "model.layers.0.mlp.gate_proj.bias"})
    EXPECT_FALSE(fused_expert(other)) << other;
}

// Experts with biases are written turned, gate and up in turn, and come back as they were.
TEST(FusedExperts, WithBiasesLieTurned) {
  const auto counted = [](Shape shape, float from) {
    std::vector<float> values(static_cast<size_t>(elements(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = from + static_cast<float>(i);
    return Tensor::from(values, shape);
  };
  NamedTensors::Items given;
  for (int64_t expert = 0; expert < 2; ++expert)
    for (const auto& [layer, rows, columns] :
         {std::tuple{"gate_proj", 2, 3}, std::tuple{"up_proj", 2, 3}, std::tuple{"down_proj", 3, 2}}) {
      const std::string module = fmt::format("layers.0.mlp.experts.{}.{}", expert, layer);
      const float from = 100.0f * static_cast<float>(given.size());
      given.emplace_back(module + ".weight", counted({rows, columns}, from));
      given.emplace_back(module + ".bias", counted({rows}, from));
    }
  given.emplace_back("layers.0.mlp.router.bias", counted({2}, 7));
  const NamedTensors::Items written = with_joined_experts(given);
  NamedTensors files;
  for (const auto& [name, tensor] : written) files.set(name, tensor);
  ASSERT_EQ(written.size(), 5);
  EXPECT_EQ(files.at("layers.0.mlp.experts.gate_up_proj").shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(files.at("layers.0.mlp.experts.down_proj").shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(files.at("layers.0.mlp.experts.gate_up_proj_bias").to_vector<float>(),
            (std::vector<float>{0, 200, 1, 201, 600, 800, 601, 801}));
  for (const auto& [name, tensor] : given) {
    const auto place = fused_expert(name);
    if (!place) continue;
    const Tensor& all = files.at(place->tensor);
    const std::vector<std::byte> bytes = all.to_bytes();
    const TensorView back = turned_back({all.dtype(), all.shape(), bytes, nullptr}, *place, name);
    EXPECT_EQ(back.shape, tensor.shape()) << name;
    EXPECT_EQ(std::vector<std::byte>(back.bytes.begin(), back.bytes.end()), tensor.to_bytes()) << name;
  }
  given.erase(given.begin());
  EXPECT_NE(test::message_of([&] { with_joined_experts(given); }).find("and not all"), std::string::npos);
}

// Those of Granite always stand together, the rows of the gate before the others.
TEST(FusedExperts, OfGraniteStandTogether) {
  NamedTensors::Items given;
  for (int64_t expert = 0; expert < 2; ++expert)
    for (const char* layer : {"input_linear.gate", "output_linear", "input_linear.up"})
      given.emplace_back(fmt::format("layers.0.block_sparse_moe.experts.{}.{}.weight", expert, layer),
                         full({1, 2}, static_cast<double>(given.size())));
  const NamedTensors::Items written = with_joined_experts(given);
  ASSERT_EQ(written.size(), 2);
  EXPECT_EQ(written[0].first, "layers.0.block_sparse_moe.input_linear.weight");
  EXPECT_EQ(written[0].second.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(written[0].second.to_vector<float>(), (std::vector<float>{0, 0, 2, 2, 3, 3, 5, 5}));
  EXPECT_EQ(written[1].first, "layers.0.block_sparse_moe.output_linear.weight");
  EXPECT_EQ(written[1].second.to_vector<float>(), (std::vector<float>{1, 1, 4, 4}));
  const auto up = fused_expert(given[5].first);
  ASSERT_TRUE(up);
  EXPECT_EQ(up->tensor, written[0].first);
  EXPECT_EQ(up->part, 1);
}

// The checkpoint of a golden case with its experts put together.
void save_fused(const fs::path& from, const fs::path& to, int64_t experts) {
  const Checkpoint stored = Checkpoint::open(from);
  NamedViews tensors;
  std::vector<std::pair<std::string, std::vector<const TensorView*>>> fused;
  for (const auto& [name, view] : stored.tensors()) {
    const auto place = fused_expert(name);
    if (!place) {
      std::string plain = name;
      if (const size_t at = plain.find(".block_sparse_moe."); at != plain.npos)
        plain.replace(at, std::string_view(".block_sparse_moe.").size(), ".mlp.");
      tensors.emplace_back(plain, view);
      continue;
    }
    std::string tensor = place->tensor;
    if (const size_t at = tensor.find(".block_sparse_moe."); at != tensor.npos)
      tensor.replace(at, std::string_view(".block_sparse_moe.").size(), ".mlp.");
    auto at = std::find_if(fused.begin(), fused.end(), [&](const auto& each) { return each.first == tensor; });
    if (at == fused.end())
      at = fused.insert(at, {tensor, std::vector<const TensorView*>(static_cast<size_t>(experts * place->parts))});
    at->second.at(static_cast<size_t>(place->expert * place->parts + place->part)) = &view;
  }
  std::vector<std::vector<std::byte>> bytes(fused.size());
  for (size_t i = 0; i < fused.size(); ++i) {
    const auto& [name, parts] = fused[i];
    for (const TensorView* part : parts) bytes[i].insert(bytes[i].end(), part->bytes.begin(), part->bytes.end());
    const int64_t rows = static_cast<int64_t>(parts.size()) / experts * parts[0]->shape[0];
    tensors.emplace_back(name, TensorView{parts[0]->dtype, {experts, rows, parts[0]->shape[1]}, bytes[i], nullptr});
  }
  fs::copy_file(from / "config.json", to / "config.json");
  save_checkpoint(to, tensors, uint64_t{1} << 30);
}

std::vector<float> logits_in(const fs::path& folder) {
  LoadReport report;
  const auto model = Model::from_pretrained(folder.string(), {}, &report);
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  return model->forward({{"input_ids", Tensor::from(std::vector<int64_t>{5, 9, 3, 17}, {1, 4})}})
      .at("logits")
      .to_vector<float>();
}

TEST(FusedExperts, AreReadAsTheirParts) {
  for (const auto& [name, experts] : {std::pair<const char*, int64_t>{"mixtral-lm", 4}, {"qwen3-moe-lm", 5}}) {
    const fs::path folder = test::folder_of_case(name) / "model";
    const test::TemporaryFolder fused;
    save_fused(folder, fused.path(), experts);
    EXPECT_EQ(logits_in(fused.path()), logits_in(folder)) << name;
  }
}

TEST(FusedExperts, OfAnotherNumberAreRefused) {
  const auto refusal = [](int64_t experts) {
    const test::TemporaryFolder fused;
    save_fused(test::folder_of_case("qwen3-moe-lm") / "model", fused.path(), 5);
    Json config = read_json(fused / "config.json");
    config["num_local_experts"] = experts;
    write_file(fused / "config.json", dump_json(config));
    return test::message_of([&] { Model::from_pretrained(fused.string(), {.ignore_mismatched_sizes = true}); });
  };
  EXPECT_NE(refusal(4).find("holds 5 weights of experts, the model that config.json describes has 4"),
            std::string::npos)
      << refusal(4);
  EXPECT_NE(refusal(6).find("holds 5 experts; config.json describes a model of more"), std::string::npos) << refusal(6);
}

}  // namespace
}  // namespace transom
