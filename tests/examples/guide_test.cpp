// SPDX-License-Identifier: Apache-2.0
// What the guide says to type: the program knows each command with all its arguments, and those that need no more than
// a small BERT are run.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "support/command.h"
#include "support/folders.h"
#include "support/golden.h"
#include "support/test_names.h"
#include "work/pipelines/task_record.h"
#include "work/train/arguments/argument_tables.h"
#include "work/train/arguments/device_arguments.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

const fs::path kRoot = test::source_folder();

std::vector<fs::path> pages() {
  std::vector<fs::path> found{kRoot / "README.md", kRoot / "bench/README.md", kRoot / "docs/device-plugins.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs/guide"))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

// The lines of shell of a page that call the program: those of blocks, which are indented or stand in fences.
std::vector<std::string> commands_of(const fs::path& page) {
  std::vector<std::string> commands;
  bool fenced = false, goes_on = false;
  const std::string text = read_file(page);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("```")) fenced = !fenced && line == "```sh";
    if (goes_on) commands.back() += line;
    else if ((fenced || line.starts_with("    ")) && !line.starts_with("    transom: ") &&
             line.find("transom ") != line.npos)
      commands.push_back(line.substr(line.find_first_not_of(' ')));
    else continue;
    goes_on = commands.back().ends_with('\\');
    if (goes_on) commands.back().pop_back();
  }
  return commands;
}

void write_script(const fs::path& path, const std::string& text) {
  write_file(path, "#!/bin/sh\n" + text + "\n");
  fs::permissions(path, fs::perms::owner_all);
}

// The names that the program's help lists, two spaces from the margin.
std::vector<std::string> program_commands() {
  const std::string help = test::run_command(test::build_folder() + "/bin/transom --help").output;
  std::vector<std::string> commands;
  std::istringstream lines(help.substr(help.find("Commands:"), help.find("Options:") - help.find("Commands:")));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ") && line[2] != ' ') commands.push_back(line.substr(2, line.find("  ", 2) - 2));
  return commands;
}

// The tasks that `train` knows, as it lists them where it is asked for another.
std::vector<std::string> training_tasks() {
  const TinyModel model;
  model.write("train.csv", "text,label\na,b\n");
  const std::string output =
      test::run_command("cd " + model.path().string() + " && " + test::build_folder() +
                        "/bin/transom train --task none --model_name_or_path . --train_file train.csv --output_dir out")
          .output;
  const size_t begin = output.find("Known are: ");
  if (begin == output.npos) return {};
  std::vector<std::string> tasks;
  std::istringstream names(output.substr(begin + 11, output.find(';', begin) - begin - 11));
  for (std::string name; std::getline(names, name, ',');) tasks.push_back(name.substr(name.find_first_not_of(' ')));
  return tasks;
}

// The tables of `train` and what the other commands say of themselves.
std::set<std::string> known_flags() {
  std::set<std::string> flags;
  TrainArguments arguments;
  const std::vector<Argument> devices = device_table();
  const BoundTable tables[] = {{training_table(), &arguments.training},
                               {script_table(), &arguments.script},
                               {devices, &arguments.training.device_arguments}};
  for (const std::string& name : argument_names(tables, "--")) flags.insert(name);
  std::vector<std::string> commands = program_commands();
  commands.emplace_back("");
  for (const TaskRecord* task : task_records()) commands.push_back("run " + std::string(task->name));
  for (const std::string& command : commands) {
    const std::string help = test::run_command(test::build_folder() + "/bin/transom " + command + " --help").output;
    for (size_t at = 0; (at = help.find("--", at)) != help.npos;) {
      const size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-", at);
      flags.insert(help.substr(at, end - at));
      at = std::min(end, help.size());
    }
  }
  return flags;
}

// A page that lists things has all of them, so that none is there and not to be found.
TEST(Guide, ListsEveryTaskAndCommand) {
  const std::string guide = read_file(kRoot / "docs/guide/README.md"), readme = read_file(kRoot / "README.md");
  const std::vector<std::string> tasks = training_tasks(), commands = program_commands();
  EXPECT_GT(tasks.size(), 30u);
  EXPECT_GT(commands.size(), 25u);
  for (const std::string& task : tasks) EXPECT_NE(guide.find("`" + task + "`"), guide.npos) << "train --task " << task;
  for (const TaskRecord* task : task_records())
    EXPECT_NE(guide.find("`" + std::string(task->name) + "`"), guide.npos) << "run " << task->name;
  for (const std::string& command : commands) {
    EXPECT_TRUE(readme.find("`transom " + command + "`") != readme.npos ||
                readme.find("`transom " + command + " ") != readme.npos ||
                readme.find("`" + command + "`") != readme.npos)
        << command;
  }
}

TEST(Guide, EveryCommandIsUnderstood) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "bin");
  // --help is obeyed when all other words have been read.
  write_script(folder / "bin/transom", "exec " + test::build_folder() + "/bin/transom \"$@\" --help > /dev/null");
  for (const char* launcher : {"bin/mpirun", "bin/torchrun", "bin/srun"})
    write_script(folder / launcher, "while [ \"$1\" != transom ]; do shift; done; exec \"$@\"");
  for (const char* file : {"sentences.txt", "article.txt", "prompt.txt", "chat.json"}) folder.write(file, "words\n");
  size_t count = 0;
  for (const fs::path& page : pages())
    for (const std::string& command : commands_of(page)) {
      folder.write("command.sh", replaced(command, "...", "") + "\n");
      const test::CommandOutcome outcome =
          test::run_command("cd " + folder.string() + " && PATH=" + (folder / "bin").string() + ":$PATH sh command.sh");
      EXPECT_EQ(outcome.status, 0) << page << ": " << command << "\n" << outcome.output;
      EXPECT_EQ(outcome.output, "") << page << ": " << command;
      ++count;
    }
  EXPECT_GT(count, 40u);
}

// Of what stands inside sentences.
TEST(Guide, EveryFlagThatItNamesIsKnown) {
  // Those of launchers and scripts, and one of a former version that is translated.
  const std::set<std::string> known = known_flags(),
                              others{"--nproc-per-node", "--no-python", "--mpi", "--group_by_length", "--dry"};
  for (const fs::path& page : pages()) {
    // These have programs of their own, too.
    if (page.filename() == "random-graphs.md" || page.parent_path() == kRoot / "bench" || page.parent_path() == kRoot)
      continue;
    const std::string text = read_file(page);
    for (size_t at = 0; (at = text.find("`--", at)) != text.npos;) {
      const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-", at + 1);
      const std::string flag = text.substr(at + 1, end - at - 1);
      if (!others.contains(flag)) {
        EXPECT_TRUE(known.contains(flag)) << page << " names " << flag;
      }
      at = end;
    }
  }
}

struct Part {
  const char* page;
  std::vector<std::string> beginnings;  // of the commands that are run
  bool needs_head = false;
};

class GuidePage : public testing::TestWithParam<Part> {};

TEST_P(GuidePage, CommandsRun) {
  const Part& part = GetParam();
  const TinyModel model(R"(, "max_position_embeddings": 128)");
  for (const char* name : {"train.csv", "dev.csv"})
    model.write(name, "text,label\nann went to rome,trip\nthe tower is old,fact\nann went,trip\nrome is old,fact\n");
  model.write("sentences.txt", "Ann went to Rome.\nThe tower is old.\n");
  std::string script = "set -e\ncd " + model.path().string() + "\nPATH=" + test::build_folder() + "/bin:$PATH\n";
  for (const char* name : {"DIR", "bert-base-uncased"}) script += std::string("ln -s . ") + name + "\n";
  if (part.needs_head) {  // which the weights of the small model lack, and which needs none
    fs::create_directory(model.path() / "MODEL");
    model.write("MODEL/config.json", replaced(model.read("config.json"), "BertModel", "BertForSequenceClassification"));
  } else {
    script += "ln -s . MODEL\n";
  }
  size_t count = 0;
  for (const std::string& command : commands_of(kRoot / "docs/guide" / part.page))
    for (const std::string& beginning : part.beginnings)
      if (command.starts_with(beginning)) script += command + "\n", ++count;
  EXPECT_GE(count, part.beginnings.size()) << "the page has other commands now";
  model.write("commands.sh", script);
  const test::CommandOutcome outcome = test::run_command("sh " + (model.path() / "commands.sh").string());
  EXPECT_EQ(outcome.status, 0) << script << outcome.output;
}

// On models that Transformers saved.
struct OnModel {
  const char *page, *beginning, *model;
};

class GuideOnModel : public testing::TestWithParam<OnModel> {};

TEST_P(GuideOnModel, CommandsRun) {
  const OnModel& each = GetParam();
  fs::path model = fs::absolute(test::golden_folder() / each.model / "model");
  if (!fs::exists(model)) model = model.parent_path();
  const test::TemporaryFolder folder;
  folder.write("article.txt", "The old tower of the town is closed, since its stairs are being mended.\n");
  folder.write("prompts.jsonl", "{\"text\": [\"Once upon a time\", \"A small\"]}\n");
  for (const char* name : {"pairs.jsonl", "dev.jsonl"})
    folder.write(name, "{\"translation\": {\"en\": \"a house\", \"de\": \"ein Haus\"}}\n");
  std::string script = "set -e\ncd " + folder.string() + "\nPATH=" + test::build_folder() + "/bin:$PATH\n" + "ln -s " +
                       (kRoot / "examples").string() + " examples\n";
  script += "mkdir HuggingFaceTB\n";
  for (const char* name :
       {"MODEL", "SMALL", "DIR", "t5-small", "MASKED_LANGUAGE_MODEL", "HuggingFaceTB/SmolVLM-256M-Instruct"})
    script += "ln -s " + model.string() + " " + name + "\n";
  size_t count = 0;
  for (const std::string& command : commands_of(kRoot / "docs/guide" / each.page))
    if (command.starts_with(each.beginning)) script += command + "\n", ++count;
  EXPECT_GT(count, 0u) << each.page << " has other commands now than " << each.beginning;
  const test::CommandOutcome outcome = test::run_command("sh " + folder.write("commands.sh", script).string());
  EXPECT_EQ(outcome.status, 0) << script << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(
    Pages, GuideOnModel,
    testing::Values(OnModel{"README.md", "transom run token-classification", "bert-token-classification"},
                    OnModel{"README.md", "transom run question-answering", "bert-question-answering"},
                    OnModel{"README.md", "transom run fill-mask", "bert-masked-lm"},
                    OnModel{"generation.md", "transom generate", "gpt2-lm"},
                    OnModel{"generation.md", "transom run text-generation", "gpt2-lm"},
                    OnModel{"generation.md", "transom run summarization", "bart"},
                    OnModel{"generation.md", "transom run translation", "t5"},
                    OnModel{"chats.md", "transom train --task sft --model_name_or_path MODEL", "sft/qwen2"},
                    OnModel{"chats.md", "transom train --task sft --model_name_or_path HuggingFaceTB", "llava"},
                    OnModel{"sentences.md", "transom train --task sentence-embedding --model_name_or_path MODEL",
                            "sentences/models/bert"},
                    OnModel{"sentences.md", "transom train --task sentence-embedding --model_name_or_path MASKED",
                            "sentences/models/splade"},
                    OnModel{"sentences.md", "transom train --task text-ranking", "cross-encoder"},
                    OnModel{"sequence-to-sequence.md", "transom train", "t5"}),
    [](const auto& info) { return test::words(fs::path(info.param.page).stem().string(), info.param.beginning); });

INSTANTIATE_TEST_SUITE_P(Pages, GuidePage,
                         testing::Values(Part{"README.md",
                                              {"transom train", "transom run text-classification",
                                               "transom run feature-extraction", "transom run sentence-similarity"}},
                                         Part{"explain.md", {"transom explain"}, true},
                                         Part{"lora.md", {"transom train", "transom merge"}}),
                         [](const auto& info) { return fs::path(info.param.page).stem().string(); });

}  // namespace
}  // namespace transom
