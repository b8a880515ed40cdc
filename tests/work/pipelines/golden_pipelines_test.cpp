// SPDX-License-Identifier: Apache-2.0
// Every pipeline that this library has, against the results of Transformers' pipeline().
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

// Rows of gray levels. A level is cut off from a number, so that its last bits may make the next one of it.
bool near_picture(const Json& got, const Json& expected) {
  if (got.is_array() && got.size() == expected.size()) {
    for (size_t i = 0; i < got.size(); ++i)
      if (!near_picture(got[i], expected[i])) return false;
    return true;
  }
  return got.is_number() && std::abs(got.get<int>() - expected.get<int>()) <= 1;
}

Json rows_of(const Picture& picture) {
  Json rows = Json::array();
  const auto& values = std::get<std::vector<uint8_t>>(picture.values);
  for (int64_t y = 0; y < picture.height; ++y)
    rows.push_back(std::vector<uint8_t>(values.begin() + y * picture.width, values.begin() + (y + 1) * picture.width));
  return {{"picture", rows}};
}

bool near(const Json& got, const Json& expected) {
  if (got.is_number() && expected.is_number())
    return std::abs(got.get<double>() - expected.get<double>()) <= 1e-4 * (1 + std::abs(expected.get<double>()));
  if (got.type() != expected.type() || got.size() != expected.size()) return false;
  if (got.is_array()) {
    for (size_t i = 0; i < got.size(); ++i)
      if (!near(got[i], expected[i])) return false;
    return true;
  }
  if (expected.contains("picture")) return near_picture(got["picture"], expected["picture"]);
  if (got.is_object()) {
    for (const auto& [key, value] : got.items())
      if (!expected.contains(key) || !near(value, expected[key])) return false;
    return true;
  }
  return got == expected;
}

// The files of both sets, "shared/" before the names of the larger one.
std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const char* set : {"", test::kSharedCase}) {
    std::vector<std::string> found;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(test::root_of_case(set) / "pipelines", none))
      found.push_back(set + entry.path().stem().string());
    std::sort(found.begin(), found.end());
    names.insert(names.end(), found.begin(), found.end());
  }
  return names;
}

// "fill-mask" of "fill-mask-bpe".
std::string task_of(const std::string& name) {
  std::string longest;
  for (const std::string& task : pipeline_tasks())
    if (name.starts_with(task) && task.size() > longest.size()) longest = task;
  return longest;
}

// With the paths of files beside the case, wherever they stand.
Json with_files_of(Json json, const std::filesystem::path& folder) {
  if (json.is_string() && json.get_ref<const std::string&>().starts_with("../"))
    return (folder / json.get<std::string>()).lexically_normal().string();
  if (json.is_structured())
    for (Json& item : json) item = with_files_of(std::move(item), folder);
  return json;
}

class GoldenPipeline : public testing::TestWithParam<std::string> {};

TEST_P(GoldenPipeline, EqualsTransformers) {
  const std::string name = test::bare_name(GetParam());
  const auto folder = test::root_of_case(GetParam()) / "pipelines";
  const Json golden = read_json(folder / (name + ".json"));
  const auto pipeline =
      make_pipeline(task_of(name), (folder / golden["model"].get<std::string>()).lexically_normal().string());
  for (const Json& run : golden["runs"]) {
    const Json inputs = with_files_of(run["inputs"], folder);
    MediaForm media = media_as_text();
    media.picture = rows_of;
    Json got;
    if (inputs.is_array() && !is_one_input(pipeline->record(), inputs)) {
      got = run_pipeline(*pipeline, std::vector<Json>(inputs.begin(), inputs.end()), run["kwargs"], media);
    } else got = run_pipeline(*pipeline, inputs, run["kwargs"], media);
    Json expected = with_files_of(run["result"], folder);
    if (expected.is_array())
      for (Json& item : expected)
        if (item.is_object()) item.erase("token_ids");  // beside what pipeline() returns
    EXPECT_TRUE(near(got, expected)) << dump_json(run["kwargs"]) << "\n got      " << dump_json(got).substr(0, 600)
                                     << "\n expected " << dump_json(run["result"]).substr(0, 600);
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, GoldenPipeline, testing::ValuesIn(cases()), test::NameOfCase());

// Each is a text of its own, wherever the tokenizer would put padding.
TEST(Pipelines, LabelsOfObjectsAreReadAsEachAlone) {
  const auto golden = test::root_of_case("") / "owlvit" / "model",
             picture = test::root_of_case("") / "image" / "gray.png";
  const test::TemporaryFolder folder;
  std::filesystem::copy(golden, folder.path());
  Json config = read_json(golden / "tokenizer_config.json");
  config["padding_side"] = "left";
  std::filesystem::remove(folder / "tokenizer_config.json");
  write_file(folder / "tokenizer_config.json", dump_json(config));
  const auto pipeline = make_pipeline("zero-shot-object-detection", folder.string());
  const auto found = [&](const std::vector<std::string>& labels) {
    return run_pipeline(*pipeline, picture.string(), {{"candidate_labels", labels}, {"threshold", 0.0}});
  };
  const Json together = found({"you", "the program of a licence"});
  for (const char* label : {"you", "the program of a licence"}) {
    Json own = Json::array();
    for (const Json& each : together)
      if (each["label"] == label) own.push_back(each);
    EXPECT_TRUE(near(own, found({label}))) << label;
  }
}

// The vocabulary has no question mark; what Transformers gives.
TEST(Pipelines, UnknownPunctuationFollowsItsWordWithoutASpace) {
  const auto pipeline =
      make_pipeline("token-classification", (test::root_of_case("") / "bert-token-classification" / "model").string());
  const Json found =
      run_pipeline(*pipeline,
                   "http://a.b/c?d=e \u00e9 copy #tag   PROGRAM \u0939\u093f\u0928\u094d\u0926\u0940 #tag \u200b "
                   "[SEP] [SEP] caf\u00e9",
                   {{"aggregation_strategy", "average"}});
  ASSERT_GT(found.size(), 3u);
  EXPECT_EQ(found[1]["word"], "/ /");
  EXPECT_EQ(found[2]["word"], "b / c?");
}

TEST(Pipelines, UnknownTasksAreRefusedByName) {
  try {
    make_pipeline("text-clasification", "nowhere");
    FAIL() << "an unknown task was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("did you mean 'text-classification'?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace transom
