// SPDX-License-Identifier: Apache-2.0
// transom train, from files of every task to the files of its results.
#include <gtest/gtest.h>

#include "apps/cli/program.h"
#include "base/error.h"
#include "base/json/json.h"
#include "transom/fine_tuning.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

struct Case {
  const char *task, *file, *rows;
  const char* metric;  // of all_results.json
  const char* predictions;
};

class TrainProgram : public testing::TestWithParam<Case> {};

TEST_P(TrainProgram, TrainsEvaluatesAndPredicts) {
  const Case& each = GetParam();
  const TinyModel model;
  const std::string file = model.write(each.file, each.rows), out = (model.path() / "out").string();
  std::string call = fmt::format(
      "train --model_name_or_path {} --task {} --train_file {} --validation_file {} --max_seq_length 16 "
      "--doc_stride 2 --max_steps 2 --per_device_train_batch_size 2 --output_dir {}",
      model.path().string(), each.task, file, file, out);
  if (each.predictions) call += " --test_file " + file;
  const test::CommandOutcome outcome = run(call);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const Json results = read_json(model.path() / "out" / "all_results.json");
  for (const char* name : {"train_loss", "train_samples", "eval_samples", "epoch", each.metric})
    EXPECT_TRUE(results.contains(name)) << name << " in " << results.dump();
  for (const char* name : {"model.safetensors", "vocab.txt", "trainer_state.json", each.predictions})
    EXPECT_TRUE(!name || std::filesystem::exists(model.path() / "out" / name)) << (name ? name : "");

  // What was written is a checkpoint that evaluates on its own.
  const test::CommandOutcome again =
      run(fmt::format("evaluate --model_name_or_path {} --task {} --validation_file {} --max_seq_length 16 "
                      "--doc_stride 2 --output_dir {}",
                      out, each.task, file, (model.path() / "again").string()));
  EXPECT_EQ(again.status, 0) << again.output;
  const Json evaluated = read_json(model.path() / "again" / "all_results.json");
  EXPECT_EQ(evaluated.at(each.metric), results.at(each.metric));
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, TrainProgram,
    testing::Values(
        Case{"text-classification", "a.csv", "text,label\nann went,x\nthe old tower,y\n", "eval_accuracy",
             "predict_results.txt"},
        Case{"token-classification", "a.conll", "Ann\tB-PER\nwent\tO\n\nRome\tB-LOC\n", "eval_f1", "predictions.txt"},
        Case{
            "question-answering", "a.jsonl",
            R"({"id": "a", "question": "Where?", "context": "in Rome", "answers": {"text": ["Rome"], "answer_start": [3]}})",
            "eval_exact_match", "predict_predictions.json"},
        Case{"fill-mask", "a.txt",
             "the old tower is old\nann went to rome and the tower\nwho went to the old tower in rome\n", "perplexity",
             nullptr},
        Case{"multiple-choice", "b.csv", "sent1,sent2,ending0,ending1,label\nann,the,tower,old,1\nrome,is,old,very,0\n",
             "eval_accuracy", "predict_results.txt"}),
    [](const auto& info) {
      std::string name = info.param.task;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(TrainProgram, EvaluateTrainsNothing) {
  const TinyModel model;
  const std::string file = model.write("a.csv", "text,label\nann,x\nrome,y\n"), out = (model.path() / "out").string();
  ASSERT_EQ(run("train --model_name_or_path " + model.path().string() + " --train_file " + file +
                " --max_steps 1 --output_dir " + out)
                .status,
            0);
  const std::string weights = model.read("out/model.safetensors"),
                    call = "evaluate --model_name_or_path " + out + " --validation_file " + file;
  const auto loss = [&](const std::string& more) {
    const std::filesystem::path again = model.path() / "again";
    std::filesystem::remove_all(again);
    const test::CommandOutcome outcome = run(call + " --output_dir " + again.string() + more);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_FALSE(std::filesystem::exists(again / "model.safetensors")) << more;
    return outcome.status ? 0 : read_json(again / "all_results.json").at("eval_loss").get<double>();
  };
  const double exact = loss("");
  // A file of arguments for training may be used for the evaluation, too.
  const std::string arguments =
      model.write("train.json", R"({"do_train": true, "eval_strategy": "epoch", "save_strategy": "epoch",
                                   "load_best_model_at_end": true, "train_file": ")" +
                                    file + "\"}");
  EXPECT_EQ(loss(" --config " + arguments), exact);
  EXPECT_EQ(model.read("out/model.safetensors"), weights);
  expect_one_line(run(call + " --overfit_batch a.safetensors"), 2, "evaluate trains nothing");
  // Found out before the weights are read, which are not there.
  std::filesystem::remove(model.path() / "out" / "model.safetensors");
  expect_one_line(run("evaluate --model_name_or_path " + out + " --train_file " + file + " --output_dir " + out), 2,
                  "there is nothing to evaluate: give --validation_file");
}

TEST(TrainProgram, QuantizationIsOfEvaluateAlone) {
  const TinyModel model;
  const std::string file = model.write("a.csv", "text,label\nann,x\nrome,y\n"),
                    folder = (model.path() / "head").string(),
                    files = " --model_name_or_path " + folder + " --validation_file " + file + " --output_dir " +
                            (model.path() / "out").string();
  ASSERT_EQ(run("train --model_name_or_path " + model.path().string() + " --train_file " + file +
                " --max_steps 1 --output_dir " + folder)
                .status,
            0);
  const auto loss = [&](const std::string& more) {
    const test::CommandOutcome outcome = run("evaluate" + files + more);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return outcome.status ? 0 : read_json(model.path() / "out" / "all_results.json").at("eval_loss").get<double>();
  };
  const double exact = loss(""), quantized = loss(" --quantization int8");
  EXPECT_NE(exact, quantized);
  EXPECT_NEAR(exact, quantized, 0.1);
  EXPECT_EQ(loss(" --quantization=int8"), quantized);
  EXPECT_EQ(loss(" --quantization none"), exact);
  expect_one_line(run("evaluate" + files + " --quantization int7"), 2, "did you mean 'int8'?");
  expect_one_line(run("evaluate" + files + " --quantization"), 2, "expected a value");
  expect_one_line(run("train --train_file " + file + files + " --quantization int8"), 2, "see transom evaluate");
  TrainArguments arguments = model.arguments({"--train_file", file, "--quantization", "int8"});
  EXPECT_THROW(fine_tune(arguments), Error);
}

TEST(TrainProgram, HelpShowsExamplesAndWhatIsUsedMost) {
  const std::string train = run("train --help").output, evaluate = run("evaluate --help").output;
  const auto line_of = [](const std::string& text, const std::string& part) {
    const size_t at = text.find(part);
    return at == text.npos ? -1 : std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  };
  for (const char* name : {"Examples:", "  --model_name_or_path ", "  --train_file ", "  --output_dir ",
                           "  --num_train_epochs ", "  --learning_rate ", "  --per_device_train_batch_size "})
    EXPECT_LT(static_cast<size_t>(line_of(train, name)), 40u) << name;
  // Each argument once.
  for (const char* name : {"\n  --output_dir ", "\n  --train_file ", "\n  --lora_r ", "\n  --adam_beta1 "})
    EXPECT_EQ(train.find(name), train.rfind(name)) << name;
  for (const char* name : {"--train_file", "--learning_rate", "--lora_r", "--save_steps", "--num_train_epochs",
                           "--seed", "--weight_decay", "--hidden_dropout", "Optimizer", "Adapters"})
    EXPECT_EQ(line_of(evaluate, std::string("  ") + name + " "), -1) << name;
  for (const char* name : {"--validation_file", "--per_device_eval_batch_size", "--quantization", "--task"})
    EXPECT_GE(line_of(evaluate, std::string("  ") + name + " "), 0) << name;
  EXPECT_LT(std::count(evaluate.begin(), evaluate.end(), '\n'), std::count(train.begin(), train.end(), '\n') * 2 / 3);
}

TEST(TrainProgram, SaysWhenTheFirstLossComesAndNothingThatIsNotKnown) {
  const TinyModel model;
  const std::string file = model.write("a.csv", "text,label\nann,x\nrome,y\n"), out = (model.path() / "out").string(),
                    call = "train --model_name_or_path " + model.path().string() + " --train_file " + file +
                           " --max_steps 2 --overwrite_output_dir --output_dir " + out;
  const std::string late = run(call).output;
  EXPECT_NE(late.find("training for 2 steps; the loss is logged every 500 steps, so not before the end"),
            std::string::npos)
      << late;
  EXPECT_EQ(late.find("total_flos"), std::string::npos) << late;
  const std::string soon = run(call + " --logging_steps 1").output;
  EXPECT_NE(soon.find("training for 2 steps; the loss is logged at every step"), std::string::npos) << soon;
  const std::string evaluated = run("evaluate --model_name_or_path " + out + " --validation_file " + file +
                                    " --output_dir " + (model.path() / "again").string())
                                    .output;
  EXPECT_NE(evaluated.find("eval_loss"), std::string::npos) << evaluated;
  EXPECT_EQ(evaluated.find("epoch"), std::string::npos) << evaluated;
}

TEST(TrainProgram, FaultsOfFilesAreSaidInItsOwnWords) {
  const TinyModel model;
  const std::string file = model.write("a.csv", "text,label\nann,x\nrome,y\n"), folder = model.path().string(),
                    call = "train --max_steps 1 --train_file " + file + " --model_name_or_path " + folder;
  expect_one_line(run(call + " --output_dir " + file + "/out 2>&1 | tail -1"), 0, "cannot be made: Not a directory");
  expect_one_line(run("train --config " + model.write("bad.json", "{\n  \"seed\" 1}")), 1,
                  "bad.json: line 2, column 10: is not valid JSON at '1'");
}

TEST(TrainProgram, WrongCallsExitWithTwo) {
  const TinyModel model;
  const std::string file = model.write("a.csv", "text,label\nann,x\nrome,y\n"),
                    call = "train --model_name_or_path " + model.path().string() + " --output_dir " +
                           (model.path() / "out").string();
  expect_one_line(run(call), 2, "--train_file");
  expect_one_line(run("evaluate --model_name_or_path " + model.path().string()), 2, "--validation_file");
  expect_one_line(run(call + " --task fill-maks --train_file " + file), 2, "did you mean 'fill-mask'?");
  expect_one_line(run(call + " --do_train --do_predict --max_steps 1 --train_file " + file), 2, "--test_file");
  EXPECT_FALSE(std::filesystem::exists(model.path() / "out" / "all_results.json"));
}

}  // namespace
}  // namespace transom
