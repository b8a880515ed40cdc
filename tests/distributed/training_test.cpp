// SPDX-License-Identifier: Apache-2.0
// transom train as several processes, launched as torchrun and mpirun do.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "distributed/sockets.h"
#include "io/safetensors.h"
#include "support/program.h"
#include "support/small_model.h"

namespace transom {
namespace {

bool has(const char* library) { return fs::exists(fs::path(TRANSOM_BINARY_DIR) / "lib" / "transom" / library); }

uint16_t free_port() {
  const Socket probe = listen_at("127.0.0.1", 0);
  sockaddr_in address{};
  socklen_t length = sizeof address;
  EXPECT_EQ(::getsockname(probe.file(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  return ntohs(address.sin_port);
}

class SeveralProcesses : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("transom_several_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    // Without dropout, of which each process has draws of its own.
    Json config = parse_json(kSmallBert, "the small model");
    config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0;
    Model::from_config(dump_json(config), {.seed = 3})->save_pretrained((folder_ / "model").string());
    write_rows(folder_ / "rows.jsonl", 22);
  }
  void TearDown() override {
    for (const char* name : kVariables) ::unsetenv(name);
    fs::remove_all(folder_);
  }

  std::vector<std::string> words(const std::string& output, int batch, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"train",
                                 "--json",
                                 "--device",
                                 "cpu",
                                 "--model_name_or_path",
                                 (folder_ / "model").string(),
                                 "--train_file",
                                 (folder_ / "rows.jsonl").string(),
                                 "--learning_rate",
                                 "0.01",
                                 "--per_device_train_batch_size",
                                 std::to_string(batch),
                                 "--output_dir",
                                 (folder_ / output).string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // One of `ranks` processes with torchrun's variables.
  std::unique_ptr<Program> start(const std::vector<std::string>& words, int rank, int ranks, uint16_t port) const {
    const std::vector<std::string> values{std::to_string(rank),
                                          std::to_string(ranks),
                                          std::to_string(rank),
                                          std::to_string(ranks),
                                          "127.0.0.1",
                                          std::to_string(port),
                                          "1"};
    for (size_t i = 0; i < values.size(); ++i) ::setenv(kVariables[i], values[i].c_str(), 1);
    const fs::path place = folder_ / ("rank" + std::to_string(rank));
    fs::create_directories(place);
    auto program = std::make_unique<Program>(words, place);
    for (const char* name : kVariables) ::unsetenv(name);
    return program;
  }

  std::vector<Outcome> run(const std::vector<std::string>& words, int ranks) const {
    const uint16_t port = free_port();
    std::vector<std::unique_ptr<Program>> programs;
    for (int rank = 0; rank < ranks; ++rank) programs.push_back(start(words, rank, ranks, port));
    std::vector<Outcome> outcomes;
    for (const auto& program : programs) outcomes.push_back(program->wait());
    return outcomes;
  }

  static std::vector<Json> steps_of(const std::string& output) {
    std::vector<Json> steps;
    for (size_t at = 0; at < output.size();) {
      const size_t end = std::min(output.find('\n', at), output.size());
      const Json line = parse_json(output.substr(at, end - at), "a line");
      if (line.contains("step")) steps.push_back(line);
      at = end + 1;
    }
    return steps;
  }
  static void expect_same_curve(const std::string& left, const std::string& right, double tolerance) {
    const std::vector<Json> a = steps_of(left), b = steps_of(right);
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (size_t i = 0; i < a.size(); ++i)
      for (const char* name : {"loss", "grad_norm", "learning_rate"})
        EXPECT_NEAR(a[i].at(name).get<double>(), b[i].at(name).get<double>(),
                    tolerance * (1 + std::abs(a[i].at(name).get<double>())))
            << name << " of step " << i + 1;
  }

  static constexpr const char* kVariables[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK",         "LOCAL_WORLD_SIZE",
                                               "MASTER_ADDR", "MASTER_PORT", "TRANSOM_NUM_THREADS"};
  fs::path folder_;
};

TEST_F(SeveralProcesses, LearnAsOneWithTheWholeBatch) {
  if (!has("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  // 5 updates of 4 rows: the sixth batch of an epoch is not full, where several processes fill up.
  const std::vector<std::string> more{
      "--max_steps", "5", "--validation_file", (folder_ / "rows.jsonl").string(), "--per_device_eval_batch_size", "3"};
  const Outcome one = start(words("one", 4, more), 0, 1, free_port())->wait();
  ASSERT_EQ(one.status, 0) << one.error;
  const std::vector<Outcome> four = run(words("four", 1, more), 4);
  for (const Outcome& outcome : four) ASSERT_EQ(outcome.status, 0) << outcome.error;
  expect_same_curve(one.output, four[0].output, 1e-5);
  // One speaks for all, and writes what one process writes.
  for (size_t rank = 1; rank < four.size(); ++rank) EXPECT_EQ(four[rank].output + four[rank].error, "");
  const Json alone = read_json(folder_ / "one" / "all_results.json"),
             all = read_json(folder_ / "four" / "all_results.json");
  EXPECT_EQ(alone.at("eval_accuracy"), all.at("eval_accuracy"));
  EXPECT_EQ(alone.at("eval_samples"), all.at("eval_samples"));
  EXPECT_TRUE(fs::exists(folder_ / "four" / "model.safetensors"));
}

// Small pieces travel one by one, and change no number.
TEST_F(SeveralProcesses, ExchangeGradientsInPiecesOfAnySize) {
  if (!has("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const Outcome whole = run(words("whole", 2, {"--max_steps", "3"}), 2)[0];
  const Outcome pieces = run(words("pieces", 2, {"--max_steps", "3", "--ddp_bucket_cap_mb", "0.001"}), 2)[0];
  ASSERT_EQ(whole.status, 0) << whole.error;
  ASSERT_EQ(pieces.status, 0) << pieces.error;
  expect_same_curve(whole.output, pieces.output, 1e-6);
}

TEST_F(SeveralProcesses, AreLaunchedByMpirun) {
  if (!has("transom_mpi.so") || std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "there is no MPI";
  const Outcome one = start(words("one", 2, {"--max_steps", "4"}), 0, 1, free_port())->wait();
  std::string call = "mpirun --allow-run-as-root --oversubscribe -n 2 " TRANSOM_BINARY_DIR "/bin/transom";
  for (const std::string& word : words("two", 1, {"--max_steps", "4", "--ddp_backend", "mpi"})) call += " " + word;
  call += " > " + (folder_ / "output").string();
  ASSERT_EQ(std::system(call.c_str()), 0);
  expect_same_curve(one.output, read_file(folder_ / "output"), 1e-5);
}

TEST_F(SeveralProcesses, RefuseAnotherDevicesTransport) {
  if (!has("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const std::vector<Outcome> outcomes = run(words("out", 1, {"--max_steps", "2", "--ddp_backend", "hccl"}), 2);
  std::string said;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, 1);
    said += outcome.error;
  }
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("ddp_backend: expected mpi or gloo for this device, found 'hccl'"), std::string::npos) << said;
}

// A process that is killed ends the others, with one message that names it; what it left is resumed to the bits of a
// run that nobody killed.
TEST_F(SeveralProcesses, EndTogetherAndResumeToTheSameBits) {
  if (!has("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  constexpr int kRanks = 3, kKilled = 1;
  const auto until = [&](const char* steps, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--max_steps", steps, "--save_steps", "5", "--lr_scheduler_type", "constant"});
    return more;
  };
  for (const Outcome& outcome : run(words("whole", 2, until("15")), kRanks))
    ASSERT_EQ(outcome.status, 0) << outcome.error;

  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Program>> programs;
  for (int rank = 0; rank < kRanks; ++rank)
    programs.push_back(start(words("killed", 2, until("1000000")), rank, kRanks, port));
  while (!fs::exists(folder_ / "killed" / "checkpoint-5") && programs[0]->is_running())
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
  for (const Outcome& outcome :
       run(words("killed", 2,
                 until("15", {"--resume_from_checkpoint", (folder_ / "killed" / "checkpoint-5").string()})),
           kRanks))
    ASSERT_EQ(outcome.status, 0) << outcome.error;
  for (const char* file : {"model.safetensors", "checkpoint-15/optimizer.safetensors"})
    EXPECT_EQ(read_file(folder_ / "whole" / file), read_file(folder_ / "killed" / file)) << file;
}

}  // namespace
}  // namespace transom
