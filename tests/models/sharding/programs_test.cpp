// SPDX-License-Identifier: Apache-2.0
// What a spread training compiles: as many programs, of as many executables of the device, however many layers the
// model has.
#include <gtest/gtest.h>

#include <regex>

#include "models/sharding/model_families.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

struct ProgramsCase {
  const char* name;
  int ranks, batch;  // of one process, so that all have 12 rows
  std::vector<std::string> words;
  int stages = 1;
};

constexpr int kFewest = 3;  // layers of a stage

class ProgramsOfLayout : public testing::TestWithParam<ProgramsCase> {
 protected:
  struct Compiled {
    size_t programs = 0, executables = 0;
  };
  // Of process 0, which alone logs, in three updates of a GPT-2 with so many layers.
  Compiled compiled(int layers) const {
    const ProgramsCase& test = GetParam();
    const test::TemporaryFolder folder;
    set_device("cpu");
    Json config = parse_json(kGpt2Config, "the model");
    config["n_layer"] = layers;
    Model::from_config(dump_json(config), {.task = "text-generation", .seed = 3})
        ->save_pretrained((folder / "model").string());
    write_file(folder / "rows.jsonl", layout_of(kGpt2Family, 1, 1, {}).rows);
    std::vector<std::string> more{"--task", "text-generation", "--max_steps", "3", "--gradient_accumulation_steps",
                                  "2",      "--save_strategy", "no"};
    more.insert(more.end(), test.words.begin(), test.words.end());
    ::setenv("TRANSOM_LOG", "recompiles", 1);
    const auto outcomes =
        test::run_ranks_over("gloo", test::training_words(folder, "cpu", "out", test.batch, more), folder, test.ranks);
    ::unsetenv("TRANSOM_LOG");
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.error;
    Compiled result;
    const std::regex line("compiled a program of [0-9]+ nodes, executables: ([0-9]+)");
    const std::string& log = outcomes[0].error;
    for (std::sregex_iterator at(log.begin(), log.end(), line), end; at != end; ++at) {
      ++result.programs;
      result.executables += std::stoul((*at)[1]);
    }
    return result;
  }
};

TEST_P(ProgramsOfLayout, AreAsManyWithMoreLayers) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  // Of a model with few layers none is in the middle, with the same before and behind it.
  const Compiled few = compiled(kFewest * GetParam().stages), more = compiled(2 * kFewest * GetParam().stages);
  EXPECT_GT(few.programs, 0U);
  EXPECT_GT(few.executables, few.programs);
  EXPECT_EQ(more.programs, few.programs);
  EXPECT_EQ(more.executables, few.executables);
}

INSTANTIATE_TEST_SUITE_P(
    Gpt2, ProgramsOfLayout,
    testing::Values(ProgramsCase{"Tensor", 3, 12, {"--tp_size", "3"}},
                    ProgramsCase{"Rows", 2, 6, {"--zero_stage", "1"}},
                    ProgramsCase{"ShardsAndTensor", 4, 6, {"--fsdp", "full_shard", "--tp_size", "2"}},
                    ProgramsCase{"StagesAndTensor", 4, 12, {"--pp_size", "2", "--tp_size", "2"}, 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
