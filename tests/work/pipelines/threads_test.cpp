// SPDX-License-Identifier: Apache-2.0
// Four threads ask pipelines of their own and shared ones for texts of many lengths, and get what one thread gets.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/json/json.h"
#include "runtime/tensor/mode_scope.h"
#include "support/golden.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

class PipelineThreads : public testing::TestWithParam<Mode> {
 protected:
  static constexpr int kThreads = 4, kCalls = 480;

  static std::unique_ptr<Pipeline> load(const std::string& task) {
    const auto folder = test::golden_folder() / "pipelines";
    const Json golden = read_json(folder / (task + ".json"));
    return make_pipeline(task, (folder / golden["model"].get<std::string>()).lexically_normal().string());
  }
  static std::string text_of(int length, bool masked) {
    static constexpr const char* kWords[] = {"the", "film", "was", "not", "a", "great", "plot", "and", "I", "liked"};
    std::string text = masked ? "[MASK]" : "so";
    for (int i = 0; i < length; ++i) text += std::string(" ") + kWords[(i * 3 + length) % 10];
    return text;
  }
};

TEST_P(PipelineThreads, GetWhatOneThreadGets) {
  const ModeScope scope(GetParam());
  constexpr int kLengths = 12;
  const std::string tasks[] = {"text-classification", "fill-mask"};
  std::shared_ptr<const Pipeline> shared[2];
  std::vector<Json> expected[2];
  for (size_t task = 0; task < 2; ++task) {
    shared[task] = load(tasks[task]);
    for (int length = 0; length < kLengths; ++length)
      expected[task].push_back(run_pipeline(*shared[task], Json(text_of(length, task == 1)), Json::object()));
  }
  std::atomic<int> wrong{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const ModeScope of_thread(GetParam());
      try {
        const std::shared_ptr<const Pipeline> own[] = {load(tasks[0]), load(tasks[1])};
        for (int i = 0; i < kCalls; ++i) {
          const size_t task = static_cast<size_t>(i + t) % 2;
          const int length = (i * 5 + t * 3) % kLengths;
          const Pipeline& pipeline = i % 4 < 2 ? *own[task] : *shared[task];
          const Json got = run_pipeline(pipeline, Json(text_of(length, task == 1)), Json::object());
          wrong += got != expected[task][static_cast<size_t>(length)];
        }
      } catch (const std::exception& error) {
        ++failed;
        ADD_FAILURE() << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << "of " << kThreads * kCalls << " calls";
  EXPECT_EQ(failed, 0);
}

// Each call has an engine with a cache of its own, over a model that all share.
TEST_P(PipelineThreads, WriteInBatchesWhatOneThreadWrites) {
  const ModeScope scope(GetParam());
  const auto options = [](int64_t together) {
    return Json{{"max_new_tokens", 6}, {"do_sample", false}, {"batch_size", together}};
  };
  std::vector<Json> texts;
  for (int length = 0; length < 6; ++length) texts.emplace_back(text_of(length, false));
  const std::shared_ptr<const Pipeline> shared = load("text-generation");
  const std::vector<Json> expected = run_pipeline(*shared, texts, options(1));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const ModeScope of_thread(GetParam());
      try {
        const std::shared_ptr<const Pipeline> own = load("text-generation");
        for (int i = 0; i < 4; ++i) wrong += run_pipeline(i % 2 ? *own : *shared, texts, options(2 + t)) != expected;
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, PipelineThreads, testing::Values(Mode::kLazy, Mode::kCompile, Mode::kGraph),
                         [](const auto& mode) {
                           return mode.param == Mode::kLazy      ? "lazy"
                                  : mode.param == Mode::kCompile ? "compile"
                                                                 : "graph";
                         });

}  // namespace
}  // namespace transom
