// SPDX-License-Identifier: Apache-2.0
// transom run and transom serve with a model that is spread over processes: the answers of one process.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "apps/serve/http_client.h"
#include "base/json/json.h"
#include "support/ranks.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Outcome;
using Words = std::vector<std::string>;

// Numbers may differ as sums of several processes do.
void expect_near(const Json& a, const Json& b, const std::string& where) {
  ASSERT_EQ(a.type_name(), std::string(b.type_name())) << where;
  if (a.is_number_float()) {
    EXPECT_NEAR(a.get<double>(), b.get<double>(), 1e-5 * (1 + std::abs(a.get<double>()))) << where;
  } else if (a.is_structured()) {
    ASSERT_EQ(a.size(), b.size()) << where;
    for (auto item = a.begin(); item != a.end(); ++item) {
      const std::string key = a.is_object() ? item.key() : std::to_string(item - a.begin());
      if (a.is_object() && (key == "id" || key == "created")) continue;
      ASSERT_TRUE(a.is_array() || b.contains(key)) << where << "." << key;
      expect_near(*item, a.is_object() ? b[key] : b[static_cast<size_t>(item - a.begin())], where + "." + key);
    }
  } else {
    EXPECT_EQ(a, b) << where;
  }
}

class SpreadAnswers : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    set_device("cpu");
  }
  Json answered(const Words& words, int ranks) const {
    const std::vector<Outcome> outcomes = test::run_ranks(words, places_, ranks);
    for (size_t rank = 0; rank < outcomes.size(); ++rank) {
      EXPECT_EQ(outcomes[rank].status, 0) << outcomes[rank].error;
      if (rank > 0) {
        EXPECT_EQ(outcomes[rank].output, "");
      }
    }
    return parse_json(outcomes[0].output, "what rank 0 said");
  }
  void expect_same_answer(Words words) const {
    words.insert(words.end(), {"--json", "--device", "cpu", "--model", folder_.string()});
    const Json one = answered(words, 1);
    for (const char* size : {"--tp_size", "--pp_size"}) {
      Words spread = words;
      spread.insert(spread.end(), {size, "2"});
      expect_near(one, answered(spread, 2), words[1] + size);
    }
  }
  test::TemporaryFolder folder_, places_;
};

TEST_F(SpreadAnswers, OfPipelines) {
  test::save_word_model(folder_, test::kWordGpt2);
  expect_same_answer({"run", "text-generation", "w3 w4", "w5 w6 w7", "--max_new_tokens", "6"});
  expect_same_answer({"run", "text-generation", "w3 w4", "--max_new_tokens", "6", "--num_beams", "3"});
}

TEST_F(SpreadAnswers, OfClassifiersAndEncoders) {
  test::save_word_model(folder_, test::kWordBert, "BertForSequenceClassification");
  expect_same_answer({"run", "text-classification", "w3 w4", "w5 w6 w7", "--batch_size", "2"});
  expect_same_answer({"run", "feature-extraction", "w3 w4 w9"});
}

TEST_F(SpreadAnswers, AreRefusedToProcessesWithOtherInputs) {
  test::save_word_model(folder_, test::kWordBert, "BertForSequenceClassification");
  const uint16_t port = test::free_port();
  std::vector<std::unique_ptr<test::Program>> programs;
  for (int rank = 0; rank < 2; ++rank)
    programs.push_back(test::start_rank({"run", "text-classification", rank == 0 ? "w3" : "w4", "--device", "cpu",
                                         "--model", folder_.string(), "--tp_size", "2"},
                                        places_, rank, 2, port));
  std::string said;
  for (const auto& program : programs) {
    const Outcome outcome = program->wait();
    EXPECT_NE(outcome.status, 0);
    said += outcome.error;
  }
  EXPECT_NE(said.find("inputs: expected the same on all processes"), said.npos) << said;
}

// A server of one or two processes.
class SpreadServer {
 public:
  SpreadServer(const fs::path& model, const fs::path& places, int ranks) : port_(test::free_port()) {
    Words words{"serve", "words=" + model.string(), "--device", "cpu", "--port", std::to_string(port_), "--log",
                "none",  "--max_batched_tokens",    "16"};
    if (ranks > 1) words.insert(words.end(), {"--tp_size", std::to_string(ranks)});
    programs_ = test::start_ranks(words, places, ranks);
    for (int i = 0; i < 600 && programs_[0]->is_running() && !answers(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  Json completion(const Json& request) const {
    test::Client client(port_);
    const test::Answer answer = client.post("/v1/completions", dump_json(request));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parse_json(answer.body, "an answer");
  }
  test::Program& program(size_t rank) { return *programs_[rank]; }
  std::vector<Outcome> end() {
    programs_[0]->signal(SIGTERM);
    std::vector<Outcome> outcomes;
    for (const auto& program : programs_) outcomes.push_back(program->wait());
    return outcomes;
  }

 private:
  bool answers() const {
    try {
      test::Client client(port_);
      return client.get("/health").status == 200;
    } catch (const std::exception&) {
      return false;
    }
  }
  uint16_t port_;
  std::vector<std::unique_ptr<test::Program>> programs_;
};

std::vector<Json> requests() {
  std::vector<Json> all;
  for (int i = 0; i < 6; ++i) {
    std::string prompt = "w" + std::to_string(1 + i);
    for (int k = 0; k < 3 * i; ++k) prompt += " w" + std::to_string((i * 5 + k * 3) % 11);
    all.push_back({{"model", "words"}, {"prompt", prompt}, {"max_tokens", 12}, {"temperature", 0}, {"logprobs", 2}});
  }
  all.push_back({{"model", "words"}, {"prompt", "w4 w2"}, {"max_tokens", 9}, {"use_beam_search", true}, {"n", 3}});
  all.push_back({{"model", "words"}, {"prompt", "w7"}, {"max_tokens", 9}, {"seed", 5}, {"top_p", 0.9}});
  return all;
}

TEST_F(SpreadAnswers, OfServersWithCompany) {
  test::save_word_model(folder_, test::kWordGpt2);
  const std::vector<Json> asked = requests();
  std::vector<Json> expected;
  {
    SpreadServer alone(folder_.path(), places_.path(), 1);
    for (const Json& request : asked) expected.push_back(alone.completion(request));
    EXPECT_EQ(alone.end()[0].status, 0);
  }
  SpreadServer spread(folder_.path(), places_.path(), 2);
  // All at once, twice: texts of one step, prefixes that are there already, a cache that grows.
  for (int round = 0; round < 2; ++round) {
    std::vector<Json> found(asked.size());
    std::vector<std::thread> askers;
    for (size_t i = 0; i < asked.size(); ++i) askers.emplace_back([&, i] { found[i] = spread.completion(asked[i]); });
    for (std::thread& asker : askers) asker.join();
    for (size_t i = 0; i < asked.size(); ++i)
      expect_near(expected[i].at("choices"), found[i].at("choices"), "request " + std::to_string(i));
  }
  for (const Outcome& outcome : spread.end()) EXPECT_EQ(outcome.status, 0) << outcome.error;
}

TEST_F(SpreadAnswers, EndWithAProcessThatIsLost) {
  test::save_word_model(folder_, test::kWordGpt2);
  SpreadServer spread(folder_.path(), places_.path(), 2);
  spread.completion(requests()[0]);
  spread.program(1).kill();
  const Outcome outcome = spread.program(0).wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.error.find("rank 1 is lost"), std::string::npos) << outcome.error;
}

}  // namespace
}  // namespace transom
