// SPDX-License-Identifier: Apache-2.0
// embedding_serialization_factor: products with the table of embeddings come in parts of the vocabulary.
#include <gtest/gtest.h>

#include <cmath>

#include "ipu_options.h"
#include "testing/ranks.h"
#include "testing/safetensors.h"

namespace transom {
namespace {

using namespace test;

class IpuSerialEmbeddings : public test::IpuOptions {
 protected:
  // A GPT-2 whose head has the weights of its embeddings.
  void SetUp() override {
    IpuOptions::SetUp();
    if (IsSkipped()) return;
    fs::create_directories(folder_ / "gpt2");
    write_file(folder_ / "gpt2" / "config.json", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
      "vocab_size": 12007, "n_embd": 128, "n_layer": 1, "n_head": 2, "n_positions": 128, "resid_pdrop": 0,
      "embd_pdrop": 0, "attn_pdrop": 0})");
  }
};

TEST_F(IpuSerialEmbeddings, TakeLessMemory) {
  const std::vector<std::string> words{"--task", "gradients", "--batch_size", "8", "--sequence_length", "128"};
  const int64_t one = machine("gpt2", words)["fullest_tile"];
  configure(R"({"embedding_serialization_factor": 4})");
  EXPECT_LT(machine("gpt2", words)["fullest_tile"].get<int64_t>(), one);
}

TEST_F(IpuSerialEmbeddings, GiveTheSameNumbers) {
  set_device("cpu");
  Model::from_config(read_file(folder_ / "gpt2" / "config.json"), {.seed = 5})
      ->save_pretrained((folder_ / "gpt2").string());
  std::vector<int64_t> tokens(2 * 9);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * i * 37 % 12007);
  test::write_integers(folder_ / "in.safetensors", {"input_ids", "labels"}, {2, 9}, tokens);
  const auto forward = [&](const std::string& name) {
    const Outcome outcome =
        Program({"forward", "--device", "ipu", "--model", (folder_ / "gpt2").string(), "--inputs",
                 (folder_ / "in.safetensors").string(), "--outputs", (folder_ / (name + ".safetensors")).string(),
                 "--gradients", (folder_ / (name + "-gradients.safetensors")).string()},
                folder_)
            .wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return test::read_safetensors(folder_ / (name + "-gradients.safetensors"));
  };
  const NamedTensors one = forward("one");
  // 12,007 is a prime: parts are not all equal.
  configure(R"({"embedding_serialization_factor": 7})");
  const NamedTensors parts = forward("parts");
  EXPECT_EQ(read_file(folder_ / "one.safetensors"), read_file(folder_ / "parts.safetensors"));  // rows are whole
  for (const auto& [name, gradient] : one.items()) {
    const std::vector<float> a = gradient.to_vector<float>(), b = parts.at(name).to_vector<float>();
    ASSERT_EQ(a.size(), b.size()) << name;
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6 + 1e-4 * std::abs(a[i])) << name << " at " << i;
  }
}

}  // namespace
}  // namespace transom
