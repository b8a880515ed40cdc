// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/weight_files.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "transom/error.h"

namespace transom {
namespace {

class WeightFiles : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& text = "12345") { write_file(folder_ / name, text); }
  std::vector<std::string> names(const std::string& inside = "") const {
    std::vector<std::string> found;
    for (const fs::path& path : weight_files(inside.empty() ? fs::path(folder_.string()) : folder_ / inside))
      found.push_back(path.filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  using Names = std::vector<std::string>;
  test::TemporaryFolder folder_;
};

TEST_F(WeightFiles, AreThoseOfOneFormat) {
  EXPECT_EQ(names(), Names());
  add("model.onnx");
  add("config.json");
  EXPECT_EQ(names(), Names({"model.onnx"}));
  add("model.gguf");
  EXPECT_EQ(names(), Names({"model.gguf"}));
  add("flax_model.msgpack");
  add("tf_model.h5");
  EXPECT_EQ(names(), Names({"tf_model.h5"}));
  add("pytorch_model.bin");
  EXPECT_EQ(names(), Names({"pytorch_model.bin"}));
  add("model.safetensors");
  EXPECT_EQ(names(), Names({"model.safetensors"}));
}

TEST_F(WeightFiles, AreTheShardsOfTheIndex) {
  add("pytorch_model.bin");
  add("model.safetensors.index.json",
      R"({"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "two.safetensors"}})");
  add("old-model-00001-of-00002.safetensors");
  EXPECT_EQ(names(), Names({"model-00001-of-00002.safetensors", "two.safetensors"}));
}

TEST_F(WeightFiles, OfAFileAreItsParts) {
  for (const char* name : {"a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "b-00002-of-00002.gguf", "c.gguf"})
    add(name);
  EXPECT_EQ(names("a-00001-of-00002.gguf"), Names({"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"}));
  EXPECT_EQ(names("c.gguf"), Names({"c.gguf"}));
}

}  // namespace
}  // namespace transom
