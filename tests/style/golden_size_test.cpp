// SPDX-License-Identifier: Apache-2.0
// Golden cases are small: what the tree keeps of all of them, and of each.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "support/folders.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMost = 25'000'000, kMostOfACase = 100'000;

// Cases that are larger, and why.
const std::map<std::string, std::string> kLarger{
    {"tokenizers/pegasus", "the rules of SentencePiece's nmt_nfkc, 320 KB, which two families have"},
    {"quantized/gguf-llama-q4_k_m", "K-quants are blocks of 256 weights, and these are by ggml's own code"},
    {"quantized/gguf-llama-f16", "a vocabulary of 700 words in 16 bits, which llama.cpp's converter wrote"},
    {"quantized/gguf-gpt2-q5_1", "a vocabulary of 700 words, and codes, which are drawn from nothing"},
    {"quantized/gguf-qwen2-q8_0", "a vocabulary of 700 words, and codes, which are drawn from nothing"},
    {"quantized/gptq-llama-int4-g32", "a vocabulary of 700 words, and codes, which are drawn from nothing"},
    {"quantized/fp8-qwen3-blocks", "a block of fp8 is 128 by 128"},
    {"quantized/blocks.safetensors", "the blocks of ggml's fifteen types, as bytes and values"},
    {"formats/bert-tf-checkpoint", "written by TensorFlow, whose files are kept as they are"},
    {"formats/bert-tf-h5", "written by Keras, whose files are kept as they are"},
    {"onnx/contrib_operators.json", "several hundred nodes, of 30 operators"},
    {"diffusion/schedulers.json", "whole runs of all schedulers with their options"},
    {"diffusion/sd3", "a pipeline of four networks and three tokenizers"},
    {"pipelines/depth-estimation.json", "depths of four pictures, pixel by pixel"},
    {"pipelines/image-segmentation.json", "masks of four pictures, pixel by pixel"},
    {"tokenizers/clip", "all hard texts, as tokens of few letters"},
    {"tokenizers/llama3", "all hard texts, as tokens of few letters"},
    {"tokenizers/whisper", "all hard texts, as tokens of few letters"},
};

// The folder of a case.json; elsewhere, in a folder of many (tokenizers, pipelines ...), each entry.
std::string case_of(const fs::path& golden, const fs::path& file) {
  fs::path name, of_two;
  int depth = 0;
  for (const fs::path& part : file.lexically_relative(golden)) {
    name /= part;
    if (fs::exists(golden / name / "case.json")) return name.string();
    if (++depth <= 2) of_two = name;
  }
  return of_two.string();
}

std::map<std::string, uintmax_t> sizes_of_cases(uintmax_t* all) {
  const fs::path golden = fs::path(test::source_folder()) / "tests" / "golden";
  std::map<std::string, uintmax_t> sizes;
  for (const auto& entry : fs::recursive_directory_iterator(golden)) {
    if (!entry.is_regular_file() || entry.path().parent_path().filename() == "__pycache__") continue;
    *all += entry.file_size();
    sizes[case_of(golden, entry.path())] += entry.file_size();
  }
  return sizes;
}

TEST(GoldenSize, OfAllCasesAndOfEach) {
  uintmax_t all = 0;
  const std::map<std::string, uintmax_t> sizes = sizes_of_cases(&all);
  EXPECT_LE(all, kMost) << "tests/golden/README.md says how cases are kept small";
  for (const auto& [name, size] : sizes) {
    if (!kLarger.contains(name))
      EXPECT_LE(size, kMostOfACase) << name << ": run tests/golden/make/smaller.py, or make it of fewer numbers";
  }
  for (const auto& [name, why] : kLarger) {
    EXPECT_TRUE(sizes.contains(name)) << name << " is not there any more";
    if (sizes.contains(name)) EXPECT_GT(sizes.at(name), kMostOfACase) << name << " is no exception any more: " << why;
  }
}

}  // namespace
}  // namespace transom
