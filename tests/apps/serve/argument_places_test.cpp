// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/argument_places.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

using serve::ArgumentPlaces;
using serve::completed_arguments;

TEST(ArgumentPlaces, GiveTheTextItsPlace) {
  const ArgumentPlaces places;
  const Json answer{{"a", places[0]}, {"b", Json::array({places[1], "x"})}};
  EXPECT_EQ(places.filled(answer, {R"({"n": 12345678901234567890123})", "{}"}),
            R"({"a":{"n": 12345678901234567890123},"b":[{},"x"]})");
  EXPECT_EQ(places.filled(Json{{"a", "b"}}, {}), R"({"a":"b"})");
}

TEST(CompletedArguments, CloseWhatALimitHasCut) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"a": 1})", R"({"a": 1})"},
      {R"({"a": 1, "b)", R"({"a": 1})"},
      {R"({"a": 1, "b": )", R"({"a": 1})"},
      {R"({"a": [1, 2, {"b": "x, y)", R"({"a": [1, 2, {}]})"},
      {R"({"a": "}, \" {", "b": tr)", R"({"a": "}, \" {"})"},
      {R"({"a")", "{}"},
      {"{", "{}"},
      {"", "{}"},
      {"no json", "{}"},
  };
  for (const auto& [cut, closed] : cases) EXPECT_EQ(completed_arguments(cut), closed) << cut;
  EXPECT_EQ(completed_arguments(std::string(100'000, '[')), "{}");
}

}  // namespace
}  // namespace transom
