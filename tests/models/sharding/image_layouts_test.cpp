// SPDX-License-Identifier: Apache-2.0
// A ViT, and a DINOv2 with gates, with an odd number of heads and of places, whose training is spread over processes:
// the curve of one process with the whole batch.
#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "models/sharding/device_under_test.h"
#include "support/bitmap.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kVit = R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 8,
  "patch_size": 4, "num_channels": 3, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3,
  "intermediate_size": 40, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0,
  "id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}})";
constexpr const char* kDinov2 = R"({"model_type": "dinov2", "architectures": ["Dinov2ForImageClassification"],
  "image_size": 8, "patch_size": 4, "num_channels": 3, "hidden_size": 24, "num_hidden_layers": 3,
  "num_attention_heads": 3, "mlp_ratio": 2, "use_swiglu_ffn": true,
  "id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}})";
constexpr int kRows = 12;                           // of an update
constexpr const char* kOfDevice = "of the device";  // in place of a transport's name

struct ImageCase {
  const char* name;
  int ranks, row_parts;  // processes, and those with rows of their own
  Words words;
  const char* backend = "gloo";
  const char* config = kVit;
};

class ImageLayouts : public testing::TestWithParam<ImageCase> {
 protected:
  void SetUp() override {
    const std::string backend = GetParam().backend;
    if (backend == "gloo" && !test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    if (backend == "mpi" && !test::has_mpi()) GTEST_SKIP() << "there is no MPI";
    if (backend == kOfDevice && !other_.is_here(folder_)) GTEST_SKIP() << "TRANSOM_TEST_DEVICE names no eight devices";
    set_device("cpu");
    Model::from_config(GetParam().config, {.seed = 3})->save_pretrained((folder_ / "model").string());
    write_file(folder_ / "model" / "preprocessor_config.json",
               R"({"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}})");
    std::string table = "image,label\n";
    for (size_t row = 0; row < 30; ++row) {
      const std::string name = std::to_string(row) + ".bmp", label(1, static_cast<char>('a' + row % 3));
      write_file(folder_ / name, test::bitmap(8, [&](size_t i) {
                   return std::array<uint8_t, 3>{static_cast<uint8_t>(row * 8), static_cast<uint8_t>(i * 4),
                                                 static_cast<uint8_t>(row * i * 7)};
                 }));
      table.append(name).append(",").append(label).append("\n");
    }
    write_file(folder_ / "rows.csv", table);
  }
  std::string curve(const std::string& output, int ranks, int row_parts, const Words& more) const {
    Words words{"train",
                "--json",
                "--device",
                on_device() ? other_.device : "cpu",
                "--task",
                "image-classification",
                "--model_name_or_path",
                (folder_ / "model").string(),
                "--train_file",
                (folder_ / "rows.csv").string(),
                "--random_crop_area",
                "1",
                "--random_flip",
                "false",
                "--per_device_train_batch_size",
                std::to_string(kRows / row_parts),
                "--learning_rate",
                "0.002",
                "--max_steps",
                "10",
                "--max_grad_norm",
                "0.5",
                "--logging_steps",
                "1",
                "--save_strategy",
                "no",
                "--ddp_timeout",
                "300",
                "--output_dir",
                (folder_ / output).string()};
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<test::Outcome> outcomes =
        test::run_ranks_over(on_device() ? other_.backend : GetParam().backend, words, folder_, ranks);
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcomes[0].output;
  }
  test::TemporaryFolder folder_;
  bool on_device() const { return std::string_view(GetParam().backend) == kOfDevice; }
  const test::DeviceUnderTest other_ = test::device_under_test();
};

TEST_P(ImageLayouts, HaveTheCurveOfOneProcess) {
  const ImageCase& test = GetParam();
  const std::string one = curve("one", 1, 1, {}), all = curve("all", test.ranks, test.row_parts, test.words);
  test::expect_same_curve(one, all, 2e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Vit, ImageLayouts,
    testing::Values(ImageCase{"Shards", 3, 3, {"--fsdp", "full_shard"}}, ImageCase{"Tensor", 2, 1, {"--tp_size", "2"}},
                    ImageCase{"Places", 2, 1, {"--cp_size", "2"}}, ImageCase{"Stages", 3, 1, {"--pp_size", "3"}},
                    ImageCase{"Stretches", 2, 1, {"--tp_size", "2", "--sequence_parallel", "true"}},
                    ImageCase{"ShardsAndTensor", 4, 2, {"--zero_stage", "2", "--tp_size", "2"}},
                    ImageCase{"StagesTensorAndShards", 8, 2, {"--pp_size", "2", "--tp_size", "2", "--zero_stage", "1"}},
                    ImageCase{"OfNine", 9, 3, {"--fsdp", "full_shard", "--tp_size", "3"}},
                    ImageCase{"OfSixteen", 16, 4, {"--pp_size", "2", "--tp_size", "2", "--zero_stage", "1"}},
                    ImageCase{"ShardsAndTensorOverMpi", 4, 2, {"--fsdp", "full_shard", "--tp_size", "2"}, "mpi"},
                    ImageCase{"ShardsAndTensorOnDevice", 4, 2, {"--fsdp", "full_shard", "--tp_size", "2"}, kOfDevice},
                    ImageCase{"StagesAndRowsOnDevice", 6, 2, {"--pp_size", "3", "--zero_stage", "1"}, kOfDevice}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Dinov2, ImageLayouts,
    testing::Values(ImageCase{"Tensor", 2, 1, {"--tp_size", "2"}, "gloo", kDinov2},
                    ImageCase{"ShardsAndTensor", 4, 2, {"--fsdp", "full_shard", "--tp_size", "2"}, "mpi", kDinov2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
