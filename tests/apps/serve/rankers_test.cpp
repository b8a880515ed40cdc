// SPDX-License-Identifier: Apache-2.0
// Language models that rank, behind /rerank and /score: their tokens are counted, and what is too long is treated as
// of other models.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "support/temporary_folder.h"
#include "support/writing_ranker.h"
#include "work/pipelines/text/pair_ranking.h"

namespace transom {
namespace {

using test::json_of;

constexpr const char *kQuery = "where?", *kShort = "Rome Rome Rome", *kLong = "Rome Rome Rome Paris Paris Paris";

int64_t tokens_of(const fs::path& folder, const char* document) {
  const auto pipeline = make_pipeline("text-ranking", folder.string());
  return dynamic_cast<const PairRanking&>(*pipeline).tokens_of_pair(kQuery, document);
}

TEST(Rankers, CountTokensAndRefuseOrCutWhatIsTooLong) {
  const test::TemporaryFolder work;
  const fs::path folder = work.path() / "model";
  fs::copy(test::small_writer(), folder);
  Json about = test::ranker_cases()["cases"]["plain"];
  test::write_ranker(folder, about);
  const int64_t most = tokens_of(folder, kShort);
  ASSERT_LT(most, tokens_of(folder, kLong));
  about["transformer"]["max_seq_length"] = most;
  test::write_ranker(folder, about);

  const auto server = test::start_server({.models = {{"model", folder.string()}}});
  test::Client client(server->port());
  const auto rank = [&](const char* document, const Json& more) {
    Json body{{"query", kQuery}, {"documents", {document}}};
    body.update(more);
    return client.post("/v1/rerank", dump_json(body));
  };
  const auto score = [](const test::Answer& answer) { return json_of(answer)["results"][0]["relevance_score"]; };
  const test::Answer fits = rank(kShort, Json::object());
  ASSERT_EQ(fits.status, 200) << fits.body;
  EXPECT_EQ(json_of(fits)["usage"]["prompt_tokens"], most);
  const test::Answer refused = rank(kLong, Json::object());
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_EQ(json_of(refused)["error"]["param"], "documents");
  EXPECT_NE(refused.body.find("set truncate_prompt_tokens to -1"), std::string::npos) << refused.body;
  const test::Answer cut = rank(kLong, {{"truncate_prompt_tokens", -1}});
  ASSERT_EQ(cut.status, 200) << cut.body;
  EXPECT_EQ(score(cut), score(fits));
  EXPECT_EQ(json_of(cut)["usage"]["prompt_tokens"], most);
  EXPECT_EQ(json_of(rank(kLong, {{"truncate_prompt_tokens", most - 1}}))["usage"]["prompt_tokens"], most - 1);
  EXPECT_EQ(rank(kLong, {{"truncate_prompt_tokens", -1}, {"truncation_side", "left"}}).status, 400);
  // In the form of text-embeddings-inference.
  const Json texts{{"query", kQuery}, {"texts", {kLong}}};
  EXPECT_EQ(client.post("/rerank", dump_json(texts)).status, 413);
}

}  // namespace
}  // namespace transom
