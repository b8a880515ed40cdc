// SPDX-License-Identifier: Apache-2.0
// Where there is no more room, here by a limit on the size of a file: one line, exit status 1, nothing half-written,
// and what was there before stays as it was.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files/files.h"
#include "files/checkpoint/checkpoint.h"
#include "support/folders.h"
#include "support/program.h"
#include "support/small_model.h"
#include "support/temporary_folder.h"
#include "work/train/files/checkpoints.h"

namespace transom {
namespace {

using test::Outcome;
using test::Program;

constexpr rlim_t kLimit = 8192;  // less than the weights take, more than every other file

TEST(FullDisk, LeavesTheOldModelAndNoHalfCheckpoint) {
  const test::TemporaryFolder folder;
  save_small_model(folder / "model");
  save_small_model(folder / "out");
  write_rows(folder / "rows.jsonl", 12);
  const std::string before = read_file(folder / "out" / "model.safetensors");
  ASSERT_GT(before.size(), kLimit);
  for (const char* strategy : {"steps", "no"}) {  // a checkpoint fails, or the model at the end
    const Outcome outcome =
        Program({"train", "--model_name_or_path", (folder / "model").string(), "--train_file",
                 (folder / "rows.jsonl").string(), "--output_dir", (folder / "out").string(), "--do_train",
                 "--max_steps", "2", "--save_steps", "1", "--save_strategy", strategy},
                folder, kLimit)
            .wait();
    EXPECT_EQ(outcome.status, 1) << outcome.error;
    EXPECT_EQ(outcome.error.find("error: "), outcome.error.rfind("error: ")) << outcome.error;
    EXPECT_NE(outcome.error.find("model.safetensors: cannot be written"), std::string::npos) << outcome.error;
    EXPECT_TRUE(read_file(folder / "out" / "model.safetensors") == before);
    EXPECT_TRUE(checkpoints_in(folder / "out").empty());
    EXPECT_FALSE(last_whole_checkpoint(folder / "out"));
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST(FullDisk, StandardOutputToo) {
  const std::string command = test::build_folder() + "/bin/transom devices > /dev/full 2> /dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
}

}  // namespace
}  // namespace transom
