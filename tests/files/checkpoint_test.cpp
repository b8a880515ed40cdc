// SPDX-License-Identifier: Apache-2.0
// Checkpoint directories: a save that is killed leaves the old weights or the new ones; an index is held to its word.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/terminal/log.h"
#include "files/checkpoint/checkpoint.h"
#include "files/checkpoint/safetensors.h"
#include "files/checkpoint/shard_index.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

namespace transom {
namespace {

using test::message_of;

constexpr size_t kTensors = 6, kElements = 20'000;

// Six tensors that all hold `value`.
NamedViews tensors_of(float value) {
  const auto values = std::make_shared<std::vector<float>>(kElements, value);
  NamedViews result;
  for (size_t i = 0; i < kTensors; ++i)
    result.push_back({"tensor" + std::to_string(i),
                      {DType::kFloat32, {static_cast<int64_t>(kElements)}, std::as_bytes(std::span(*values)), values}});
  return result;
}

class CheckpointDirectory : public testing::Test {
 protected:
  std::string refusal() const {
    return message_of([&] { Checkpoint::open(folder_); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(CheckpointDirectory, IsTheOldOrTheNewOneWhereverASaveIsKilled) {
  constexpr uint64_t kSizes[] = {uint64_t{1} << 30, 200'000, 200'000, 100'000, 400'000};  // one file, 3, 3, 6, 2 shards
  save_checkpoint(folder_, tensors_of(0), kSizes[0]);
  std::mt19937 random(1);
  int kills = 0;
  for (int round = 0; round < 60; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = round;; ++i)
        save_checkpoint(folder_, tensors_of(static_cast<float>(i)), kSizes[static_cast<size_t>(i) % 5]);
    }
    ::usleep(random() % 30'000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    kills += WIFSIGNALED(status);
    const Checkpoint checkpoint = Checkpoint::open(folder_);
    ASSERT_EQ(checkpoint.tensors().size(), kTensors) << round;
    float first = 0;
    std::memcpy(&first, checkpoint.tensors()[0].second.bytes.data(), sizeof first);
    for (const auto& [name, view] : checkpoint.tensors()) {
      std::vector<float> values(kElements);
      std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
      ASSERT_EQ(values, std::vector<float>(kElements, first)) << name << " in round " << round;
    }
  }
  EXPECT_EQ(kills, 60);
  // One more save, unbroken, leaves nothing of the others.
  save_checkpoint(folder_, tensors_of(7), kSizes[1]);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                             "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
}

TEST_F(CheckpointDirectory, NeedsEveryFileOfItsIndex) {
  save_checkpoint(folder_, tensors_of(1), 200'000);
  const fs::path path = folder_ / "model.safetensors.index.json";
  ShardIndex index = parse_shard_index(read_file(path), "x");
  EXPECT_EQ(index.total_size, kTensors * kElements * 4);
  EXPECT_EQ(index.total_parameters, kTensors * kElements);
  index.files["ghost"] = index.files["tensor0"];
  write_file(path, print_shard_index(index));
  std::string said;
  set_log_sink([&](LogLevel, std::string_view text) { said += text; });
  EXPECT_EQ(Checkpoint::open(folder_).tensors().size(), static_cast<size_t>(kTensors));  // as Transformers
  set_log_sink({});
  EXPECT_NE(said.find("names a tensor that is in no file: 'ghost'"), std::string::npos) << said;
  index.files["ghost"] = "model-00009-of-00009.safetensors";
  write_file(path, print_shard_index(index));
  EXPECT_NE(refusal().find("names the file 'model-00009-of-00009.safetensors'"), std::string::npos) << refusal();
}

TEST_F(CheckpointDirectory, OfATensorInTwoFilesTheIndexSaysWhichCounts) {
  for (const char* counts : {"a.safetensors", "b.safetensors"}) {
    NamedViews first = tensors_of(1), second = tensors_of(2);
    first.resize(3);
    second.resize(3);
    second[2].first = "other";
    write_safetensors(folder_ / "a.safetensors", first);
    write_safetensors(folder_ / "b.safetensors", second);
    ShardIndex index;
    index.total_size = 1;  // a wrong one is of no matter
    index.files = {{"tensor0", counts}, {"tensor1", counts}, {"tensor2", "a.safetensors"}, {"other", "b.safetensors"}};
    write_file(folder_ / "model.safetensors.index.json", print_shard_index(index));
    const Checkpoint checkpoint = Checkpoint::open(folder_);
    EXPECT_EQ(checkpoint.tensors().size(), 4u);
    float value = 0;
    std::memcpy(&value, checkpoint.find("tensor1")->bytes.data(), sizeof(value));
    EXPECT_EQ(value, std::string(counts) == "a.safetensors" ? 1 : 2);
    index.files.erase("tensor1");
    write_file(folder_ / "model.safetensors.index.json", print_shard_index(index));
    EXPECT_NE(refusal().find("'tensor1' is in several files with different values"), std::string::npos) << refusal();
  }
}

// DataParallel, torch.compile, FSDP: their files hold the model of which each name is a part.
TEST_F(CheckpointDirectory, NamesOfWrappersAreLeftOut) {
  const auto saved = [&](const std::vector<std::string>& names) {
    NamedViews tensors = tensors_of(1);
    tensors.resize(names.size());
    for (size_t i = 0; i < names.size(); ++i) tensors[i].first = names[i];
    save_checkpoint(folder_, tensors, uint64_t{1} << 30);
    std::vector<std::string> found;
    const Checkpoint checkpoint = Checkpoint::open(folder_);
    for (const auto& [name, view] : checkpoint.tensors()) found.push_back(name);
    std::sort(found.begin(), found.end());
    return found;
  };
  using Names = std::vector<std::string>;
  const Names bare{"layer.bias", "layer.weight"};
  for (const char* wrapper : {"module.", "_orig_mod.", "_fsdp_wrapped_module.", "module._orig_mod.",
                              "_orig_mod.module.", "_fsdp_wrapped_module._checkpoint_wrapped_module."})
    EXPECT_EQ(saved({wrapper + bare[0], wrapper + bare[1]}), bare) << wrapper;
  EXPECT_EQ(saved({"layer.bias", "layer._orig_mod.weight"}), bare);
  EXPECT_EQ(saved({"layer.bias", "module.weight"}), (Names{"layer.bias", "module.weight"})) << "a part of that name";
  EXPECT_NE(message_of([&] { saved({"layer.bias", "_orig_mod.layer.bias"}); }).find("comes twice"), std::string::npos);
}

TEST_F(CheckpointDirectory, APointerOfGitLfsIsNamed) {
  for (const char* name : {"pytorch_model.bin", "model.safetensors"}) {
    folder_.write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:1a2b\nsize 4096\n");
    EXPECT_NE(refusal().find("found a pointer of Git LFS"), std::string::npos) << name << ": " << refusal();
  }
}

TEST(ShardIndex, RefusesTensorsThatComeTwice) {
  EXPECT_NE(message_of([] { parse_shard_index(R"({"weight_map":{"a":"x","a":"y"}})", "i"); }).find("comes twice"),
            std::string::npos);
}

TEST(SafetensorsWriter, RefusesWhatCouldNotBeRead) {
  const test::TemporaryFolder folder;
  const fs::path path = folder / "x.safetensors";
  NamedViews tensors = tensors_of(1);
  tensors[3].second.shape = {3};
  EXPECT_THROW(write_safetensors(path, tensors), Error);
  tensors = tensors_of(1);
  tensors[1].first = tensors[0].first;
  EXPECT_THROW(write_safetensors(path, tensors), Error);
  tensors[1].first = "\xff";
  EXPECT_THROW(write_safetensors(path, tensors), Error);
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace transom
