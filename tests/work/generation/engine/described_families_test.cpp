// SPDX-License-Identifier: Apache-2.0
// The decoders that files describe, in company: each request gets the ids that it gets alone. One prompt begins as
// another does, so that they share blocks of keys.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/files/shared_data.h"
#include "base/json/json.h"
#include "support/golden_cases.h"
#include "support/test_names.h"
#include "transom/engine.h"
#include "transom/generation.h"

namespace transom {
namespace {

std::vector<std::string> cases_of_described() {
  std::set<std::string> classes;
  if (const auto folder = shared_data("families"))
    for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
      const Json file = read_json(entry.path());
      for (const auto& [name, head] : file["classes"].items()) classes.insert(name);
    }
  std::vector<std::string> cases;
  for (const std::string& name : test::golden_cases_with("generate.json"))
    if (classes.contains(read_json(test::folder_of_case(name) / "case.json")["class"])) cases.push_back(name);
  return cases;
}

class DescribedInCompany : public testing::TestWithParam<std::string> {};

TEST_P(DescribedInCompany, WritesWhatItWritesAlone) {
  const auto model = Model::from_pretrained((test::folder_of_case(GetParam()) / "model").string());
  Engine engine(*model);
  std::map<uint64_t, std::pair<EngineRequest, TokenIds>> requests;
  for (const TokenIds& prompt :
       {TokenIds{17, 42, 8, 23, 9, 31}, TokenIds{5}, TokenIds{17, 42, 8, 23, 9, 31, 12, 40}, TokenIds{50, 51, 52}}) {
    EngineRequest request{.prompt = prompt};
    request.config.update(R"({"max_new_tokens": 9, "eos_token_id": 59})");
    const uint64_t number = engine.add(request);
    requests[number] = {request, {}};
  }
  while (engine.step())
    for (const EngineEvent& event : engine.take()) {
      TokenIds& tokens = requests.at(event.request).second;
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      EXPECT_EQ(event.error, "");
    }
  for (const EngineEvent& event : engine.take()) {
    TokenIds& tokens = requests.at(event.request).second;
    tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
  }
  for (auto& [number, made] : requests) {
    TokenIds alone = generate(*model, made.first.prompt, made.first.config).sequences.at(0);
    alone.erase(alone.begin(), alone.begin() + static_cast<ptrdiff_t>(made.first.prompt.tokens.size()));
    while (!alone.empty() && alone.back() == 59) alone.pop_back();
    EXPECT_EQ(made.second, alone);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DescribedInCompany);
INSTANTIATE_TEST_SUITE_P(All, DescribedInCompany, testing::ValuesIn(cases_of_described()), test::NameOfCase());

}  // namespace
}  // namespace transom
