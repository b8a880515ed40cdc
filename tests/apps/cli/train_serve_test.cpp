// SPDX-License-Identifier: Apache-2.0
// transom train --serve: who trains a model may ask it at once.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "apps/cli/program.h"
#include "apps/serve/http_client.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/program.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

// The port that a server says it listens on; 0: it has ended without.
uint16_t port_of(test::Program& program, const std::filesystem::path& folder) {
  const std::string mark = "on http://127.0.0.1:";
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < until) {
    const std::filesystem::path file = folder / "standard_error";
    const std::string said = std::filesystem::exists(file) ? read_file(file) : "";
    if (const size_t at = said.find(mark); at != said.npos && said.find('\n', at) != said.npos)
      return static_cast<uint16_t>(std::stoi(said.substr(at + mark.size())));
    if (!program.is_running()) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return 0;
}

TEST(TrainAndServe, AnswersFromTheTrainedModel) {
  const TinyModel model;
  const std::string rows = model.write("a.csv", "text,label\nann went,x\nthe old tower,y\n"),
                    out = (model.path() / "out").string();
  test::Program program({"train", "--model_name_or_path", model.path().string(), "--train_file", rows, "--max_steps",
                         "1", "--max_seq_length", "16", "--output_dir", out, "--device", "cpu", "--serve", "--port=0",
                         "--served_model_name", "fresh"},
                        model.path());
  const uint16_t port = port_of(program, model.path());
  ASSERT_NE(port, 0) << read_file(model.path() / "standard_error");
  const test::Answer answer = test::Client(port).post("/models/fresh", R"({"inputs": "ann went"})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(answer.body.find("\"label\":\"x\""), std::string::npos) << answer.body;
  EXPECT_TRUE(std::filesystem::exists(model.path() / "out" / "model.safetensors"));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().status, 0);
}

TEST(TrainAndServe, RefusesWhatCannotBeServedBeforeItTrains) {
  expect_one_line(run("train --port 8000"), 2, "--port: expected --serve");
  expect_one_line(run("train --serve --port many"), 2, "--port: expected a number from 0 to 65535, found 'many'");
  expect_one_line(run("train --serve --model_name_or_path x --overfit_batch y.safetensors"), 2,
                  "--serve: --overfit_batch leaves no model behind");
  EXPECT_NE(run("train --help").output.find("--serve"), std::string::npos);
}

}  // namespace
}  // namespace transom
