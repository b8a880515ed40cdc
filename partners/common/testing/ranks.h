// SPDX-License-Identifier: Apache-2.0
// The program as several processes, each with the variables that torchrun sets, and the curves that they report.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "testing/files.h"
#include "testing/program.h"
#include "testing/small_model.h"
#include "transom/device.h"

namespace transom::test {

// One that is free now.
inline uint16_t free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(probe, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(probe);
  return ntohs(address.sin_port);
}

// One of `ranks` processes; what it writes lies in a folder of its own below `folder`.
inline std::unique_ptr<Program> start_rank(const std::vector<std::string>& words, const std::filesystem::path& folder,
                                           int rank, int ranks, uint16_t port) {
  const std::vector<std::pair<const char*, std::string>> variables{
      {"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(ranks)},
      {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
      {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", std::to_string(port)},
      {"TRANSOM_NUM_THREADS", "1"}};
  for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
  const std::filesystem::path place = folder / ("rank" + std::to_string(rank));
  std::filesystem::create_directories(place);
  auto program = std::make_unique<Program>(words, place);
  for (const auto& [name, value] : variables) ::unsetenv(name);
  return program;
}

inline std::vector<std::unique_ptr<Program>> start_ranks(const std::vector<std::string>& words,
                                                         const std::filesystem::path& folder, int ranks) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Program>> programs;
  for (int rank = 0; rank < ranks; ++rank) programs.push_back(start_rank(words, folder, rank, ranks, port));
  return programs;
}

inline std::vector<Outcome> run_ranks(const std::vector<std::string>& words, const std::filesystem::path& folder,
                                      int ranks) {
  std::vector<Outcome> outcomes;
  for (const auto& program : start_ranks(words, folder, ranks)) outcomes.push_back(program->wait());
  return outcomes;
}

// The updates that --json reports.
inline std::vector<Json> steps_of(const std::string& output) {
  std::vector<Json> steps;
  for (size_t at = 0; at < output.size();) {
    const size_t end = std::min(output.find('\n', at), output.size());
    const Json line = Json::parse(output.substr(at, end - at));
    if (line.contains("step")) steps.push_back(line);
    at = end + 1;
  }
  return steps;
}

// Within `tolerance` of the largest number of the curve: a later loss or norm is what is left of terms that do not
// shrink with it (probabilities, activations), and as exact as they are. Learning rates are equal.
inline void expect_same_curve(const std::string& left, const std::string& right, double tolerance) {
  const std::vector<Json> a = steps_of(left), b = steps_of(right);
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (const char* name : {"loss", "grad_norm"}) {
    double largest = 0;
    for (const Json& step : a) largest = std::max(largest, std::abs(step.at(name).get<double>()));
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i].at(name).get<double>(), b[i].at(name).get<double>(), tolerance * largest)
          << name << " of step " << i + 1;
  }
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].at("learning_rate"), b[i].at("learning_rate"));
}

// A BERT without dropout, of which each process has draws of its own, and rows for it.
inline void save_model_and_rows(const std::filesystem::path& folder, int rows) {
  set_device("cpu");  // a card is for the programs that are run
  Json config = Json::parse(kSmallBert);
  config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0;
  Model::from_config(config.dump(), {.seed = 3})->save_pretrained((folder / "model").string());
  write_rows(folder / "rows.jsonl", rows);
}

inline std::vector<std::string> training_words(const std::filesystem::path& folder, const std::string& device,
                                               const std::string& output, int batch,
                                               const std::vector<std::string>& more) {
  std::vector<std::string> all{"train",
                               "--json",
                               "--device",
                               device,
                               "--model_name_or_path",
                               (folder / "model").string(),
                               "--train_file",
                               (folder / "rows.jsonl").string(),
                               "--learning_rate",
                               "0.01",
                               "--per_device_train_batch_size",
                               std::to_string(batch),
                               "--output_dir",
                               (folder / output).string()};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Kills rank 1 of three once there is a checkpoint: the others end with one message that names it, and what it left is
// resumed to the bits of a run that nobody killed. `words(output, more)` are those of a run.
template <typename Words>
void expect_that_killing_one_ends_all(const std::filesystem::path& folder, const Words& words) {
  constexpr int kRanks = 3, kKilled = 1;
  const auto until = [&](const char* steps, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--max_steps", steps, "--save_steps", "5", "--lr_scheduler_type", "constant"});
    return more;
  };
  for (const Outcome& outcome : run_ranks(words("whole", until("15")), folder, kRanks))
    ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto programs = start_ranks(words("killed", until("1000000")), folder, kRanks);
  while (!std::filesystem::exists(folder / "killed" / "checkpoint-5") && programs[0]->is_running())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  programs[kKilled]->kill();
  std::string said;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kKilled) continue;
    const Outcome outcome = programs[static_cast<size_t>(rank)]->wait();
    EXPECT_EQ(outcome.status, 1);
    said += outcome.error;
  }
  EXPECT_EQ(said, "transom: error: rank 1 is lost: its process ended without a word\n");
  // From the first checkpoint, whatever was written after it.
  const std::vector<std::string> resumed =
      until("15", {"--resume_from_checkpoint", (folder / "killed" / "checkpoint-5").string()});
  for (const Outcome& outcome : run_ranks(words("killed", resumed), folder, kRanks))
    ASSERT_EQ(outcome.status, 0) << outcome.error;
  for (const char* file : {"model.safetensors", "checkpoint-15/optimizer.safetensors"})
    EXPECT_EQ(read_file(folder / "whole" / file), read_file(folder / "killed" / file)) << file;
}

}  // namespace transom::test
