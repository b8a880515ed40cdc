// SPDX-License-Identifier: Apache-2.0
// Whole runs: against Transformers' Trainer, and broken off and resumed against unbroken.
#include "transom/trainer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "base/threads/threads.h"
#include "inputs/data/text/padding.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "work/train/files/checkpoints.h"
#include "work/train/files/trainer_state.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTinyBert =
    R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 50,
  "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16,
  "id2label": {"0": "a", "1": "b", "2": "c"}})";

TrainingData tiny_data() {
  TrainingData data;
  data.rows = 23;
  data.batch = [](const std::vector<int64_t>& rows) {
    std::vector<Features> features(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      // The first token tells the label; the others are noise.
      for (int64_t t = 0; t < 4 + rows[i] % 5; ++t)
        features[i].sequences["input_ids"].push_back(t == 0 ? 40 + rows[i] % 3 : (rows[i] * 7 + t * 3) % 30 + 1);
      features[i].label = rows[i] % 3;
    }
    return collate(features, {});
  };
  return data;
}

TrainingArguments tiny_arguments(const fs::path& folder) {
  TrainingArguments arguments;
  arguments.output_dir = folder.string();
  arguments.per_device_train_batch_size = 4;
  arguments.gradient_accumulation_steps = 2;
  arguments.num_train_epochs = 3;
  arguments.learning_rate = 1e-3;
  arguments.weight_decay = 0.01;
  arguments.logging_steps = 1;
  arguments.save_strategy = "steps";
  arguments.save_steps = 4;
  arguments.lr_scheduler_type = "cosine";
  arguments.warmup_steps = 2;
  arguments.resolve();
  return arguments;
}

std::vector<std::byte> weights_of(Model& model) {
  std::vector<std::byte> all;
  for (const auto& parameter : model.parameters()) {
    const auto bytes = parameter->value.to_bytes();
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

class TrainerRun : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

// Dropout is on: its draws must come again as well.
TEST_F(TrainerRun, AResumedRunGivesTheSameBitsAsAnUnbrokenOne) {
  Trainer unbroken(Model::from_config(kTinyBert), tiny_arguments(folder_ / "a"));
  unbroken.set_train_data(tiny_data());
  unbroken.train();
  const auto expected = weights_of(unbroken.model());

  Trainer resumed(Model::from_config(kTinyBert), tiny_arguments(folder_ / "b"));
  resumed.set_train_data(tiny_data());
  resumed.train((folder_ / "a" / "checkpoint-4").string());
  EXPECT_EQ(weights_of(resumed.model()), expected);
  EXPECT_EQ(resumed.state().global_step, unbroken.state().global_step);
}

TEST_F(TrainerRun, LearnsWhatItSees) {
  TrainingArguments arguments = tiny_arguments(folder_);
  arguments.num_train_epochs = 30;
  arguments.learning_rate = 5e-3;
  arguments.save_strategy = "no";
  Trainer trainer(Model::from_config(kTinyBert), arguments);
  trainer.set_train_data(tiny_data());
  std::vector<double> losses;
  trainer.set_step_reports([&](const StepReport& report) { losses.push_back(report.loss); });
  trainer.train();
  EXPECT_LT(losses.back(), losses.front() / 3);
}

TEST_F(TrainerRun, SavesAModelThatLoadsToTheSameWeights) {
  Trainer trainer(Model::from_config(kTinyBert), tiny_arguments(folder_));
  trainer.set_train_data(tiny_data());
  trainer.train();
  trainer.save_model();
  const auto loaded = Model::from_pretrained(folder_.string());
  EXPECT_EQ(weights_of(*loaded), weights_of(trainer.model()));
  EXPECT_EQ(loaded->labels(), (std::vector<std::string>{"a", "b", "c"}));
}

// Rows of a decoder, of different lengths: what counts is the token, not the row.
TEST_F(TrainerRun, AccumulatedBatchesOfADecoderAreOneBatch) {
  constexpr const char* kTinyLlama =
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 20, "hidden_size": 16,
          "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 16})";
  TrainingData data;
  data.rows = 4;
  data.batch = [](const std::vector<int64_t>& rows) {
    std::vector<Features> features(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t t = 0; t < 2 + 3 * rows[i]; ++t)
        features[i].sequences["input_ids"].push_back((3 * rows[i] + t) % 20);
      features[i].sequences["labels"] = features[i].sequences["input_ids"];
    }
    return collate(features, {});
  };
  const auto first_loss = [&](int64_t batch, int64_t accumulation) {
    TrainingArguments arguments = tiny_arguments(folder_);
    arguments.per_device_train_batch_size = batch;
    arguments.gradient_accumulation_steps = accumulation;
    arguments.save_strategy = "no";
    arguments.max_steps = 1;
    Trainer trainer(Model::from_config(kTinyLlama), arguments);
    trainer.set_train_data(data);
    StepReport result;
    trainer.set_step_reports([&](const StepReport& report) { result = report; });
    trainer.train();
    return result;
  };
  const StepReport whole = first_loss(4, 1), parts = first_loss(1, 4);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-5);
  EXPECT_NEAR(parts.gradient_norm, whole.gradient_norm, 1e-5);
}

// Seq2SeqTrainer gathers the losses of whole batches, so that a last one of fewer rows counts as much as the others.
TEST_F(TrainerRun, WeighsTheLossesOfBatchesAsTrainerAndSeq2SeqTrainerDo) {
  TrainingArguments arguments = tiny_arguments(folder_);
  arguments.per_device_eval_batch_size = 4;
  const auto loss_of = [&](int64_t first, int64_t rows, bool predicts) {
    Trainer trainer(Model::from_config(kTinyBert, {.seed = 1}), arguments);
    if (predicts) trainer.set_predictor([](const NamedTensors& inputs) { return inputs; });
    TrainingData data = tiny_data();
    data.rows = rows;
    data.batch = [first, batch = data.batch](std::vector<int64_t> indices) {
      for (int64_t& index : indices) index += first;
      return batch(indices);
    };
    return trainer.predict(data).loss.value();
  };
  const double four = loss_of(0, 4, false), one = loss_of(4, 1, false);
  ASSERT_GT(std::abs(four - one), 1e-3);
  EXPECT_NEAR(loss_of(0, 5, false), (4 * four + one) / 5, 1e-6);
  EXPECT_NEAR(loss_of(0, 5, true), (four + one) / 2, 1e-6);
}

// Rows of like length are evaluated together, and predicted in the order of the data; rows that fill no batch count
// only where none are dropped.
TEST_F(TrainerRun, EvaluatesInTrainersBatches) {
  TrainingArguments arguments = tiny_arguments(folder_);
  arguments.per_device_eval_batch_size = 4;
  TrainingData data = tiny_data();
  for (int64_t row = 0; row < data.rows; ++row) data.lengths.push_back(4 + row % 5);
  const auto evaluated = [&](std::vector<int64_t>& widths) {
    Trainer trainer(Model::from_config(kTinyBert, {.seed = 1}), arguments);
    TrainingData counted = data;
    counted.batch = [&](const std::vector<int64_t>& rows) {
      Batch batch = data.batch(rows);
      widths.push_back(batch.sequences.at("input_ids").length);
      return batch;
    };
    const Predictions predictions = trainer.predict(counted);
    EXPECT_EQ(predictions.rows, 23);
    EXPECT_EQ(predictions.labels,
              (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1}));
    std::vector<float> logits = predictions.outputs.at(0).values;
    widths.clear();
    trainer.set_eval_data(counted);
    trainer.evaluate();
    return logits;
  };
  std::vector<int64_t> widths, grouped_widths;
  const std::vector<float> plain = evaluated(widths);
  arguments.train_sampling_strategy = "group_by_length";
  arguments.dataloader_drop_last = true;
  const std::vector<float> grouped = evaluated(grouped_widths);
  ASSERT_EQ(grouped.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(grouped[i], plain[i], 1e-5) << i;
  EXPECT_EQ(widths.size(), 6u);
  EXPECT_EQ(grouped_widths.size(), 5u);
  const auto sum = [](const std::vector<int64_t>& values) { return std::accumulate(values.begin(), values.end(), 0L); };
  EXPECT_LT(sum(grouped_widths), sum({widths.begin(), widths.begin() + 5}));
}

// While an update or an evaluation computes, the batch after it is made already.
TEST_F(TrainerRun, MakesBatchesBesideTheComputation) {
  if (thread_count() == 1) GTEST_SKIP() << "one thread makes nothing ahead";
  TrainingArguments arguments = tiny_arguments(folder_);
  arguments.gradient_accumulation_steps = 1;
  arguments.save_strategy = "no";
  arguments.max_steps = 5;
  std::atomic<int64_t> made = 0;
  TrainingData data = tiny_data();
  data.batch = [&, batch = data.batch](const std::vector<int64_t>& rows) { return ++made, batch(rows); };
  // Waits where the computation stands until a batch beyond the `used` ones was made.
  const auto made_beyond = [&](int64_t used) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (made <= used && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return made > used;
  };

  Trainer trainer(Model::from_config(kTinyBert), arguments);
  trainer.set_train_data(data);
  trainer.set_step_reports([&](const StepReport& report) {
    if (report.step < 5) {
      EXPECT_TRUE(made_beyond(report.step)) << "step " << report.step;
    }
  });
  trainer.train();
  EXPECT_EQ(made, 5);  // none for nothing

  made = 0;
  int64_t used = 0;
  trainer.set_preprocess_outputs([&](const NamedTensors& outputs) {
    if (++used < 3) {
      EXPECT_TRUE(made_beyond(used)) << "batch " << used;
    }
    return outputs;
  });
  trainer.predict(data);
  EXPECT_EQ(used, 3);  // 23 rows
}

// What fails beside the computation is thrown by train.
TEST_F(TrainerRun, EndsWithTheErrorOfABatch) {
  TrainingArguments arguments = tiny_arguments(folder_);
  arguments.gradient_accumulation_steps = 1;
  arguments.save_strategy = "no";
  TrainingData data = tiny_data();
  data.batch = [&, batch = data.batch](const std::vector<int64_t>& rows) {
    if (std::count(rows.begin(), rows.end(), 17)) throw Error(ErrorKind::kInput, "row 17 cannot be read");
    return batch(rows);
  };
  Trainer trainer(Model::from_config(kTinyBert), arguments);
  trainer.set_train_data(data);
  EXPECT_EQ(test::message_of([&] { trainer.train(); }), "row 17 cannot be read");
}

// Ends the run after so many updates, as a signal does.
class InterruptAfter : public TrainerCallback {
 public:
  explicit InterruptAfter(int64_t step) : step_(step) {}
  void on_step_end(const TrainingArguments&, const TrainerState& state) override { at_ = state.global_step; }
  bool should_interrupt() override { return at_ == step_; }

 private:
  int64_t step_, at_ = 0;
};

// Asks for work that the arguments do not ask for.
class AsksAfter : public TrainerCallback {
 public:
  void on_epoch_begin(const TrainingArguments&, const TrainerState&) override { ++epochs; }
  void on_epoch_end(const TrainingArguments&, const TrainerState&) override { --epochs; }
  void on_step_end(const TrainingArguments&, const TrainerState& state) override { at_ = state.global_step; }
  void on_evaluate(const TrainingArguments&, const TrainerState& state, const Metrics&) override {
    evaluated.push_back(state.global_step);
  }
  bool should_evaluate() override { return std::exchange(at_, -at_) == 2; }
  bool should_save() override { return at_ == -4; }

  int64_t epochs = 0;
  std::vector<int64_t> evaluated;

 private:
  int64_t at_ = 0;
};

TEST_F(TrainerRun, CallbacksAskForEvaluationsAndCheckpoints) {
  TrainingArguments arguments = tiny_arguments(folder_);
  arguments.save_strategy = "no";
  arguments.eval_strategy = "no";
  Trainer trainer(Model::from_config(kTinyBert), arguments);
  trainer.set_train_data(tiny_data());
  trainer.set_eval_data(tiny_data());
  const auto asks = std::make_shared<AsksAfter>();
  trainer.add_callback(asks);
  trainer.train();
  EXPECT_EQ(asks->evaluated, std::vector<int64_t>{2});
  EXPECT_EQ(asks->epochs, 0);
  EXPECT_TRUE(path_exists(folder_ / "checkpoint-4"));
  EXPECT_FALSE(path_exists(folder_ / "checkpoint-2"));
}

TEST_F(TrainerRun, AModelIsSharedWithItsCaller) {
  const std::shared_ptr<Model> model = Model::from_config(kTinyBert);
  const auto before = weights_of(*model);
  for (int run = 0; run < 2; ++run) {
    TrainingArguments arguments = tiny_arguments(folder_ / std::to_string(run));
    Trainer trainer(model, arguments);
    trainer.set_train_data(tiny_data());
    trainer.train();
  }
  EXPECT_NE(weights_of(*model), before);
}

// 23 rows in batches of 4, two an update: 3 updates an epoch; in the middle of an epoch and at its end.
TEST_F(TrainerRun, AnInterruptedRunGoesOnWithTheSameBits) {
  TrainingArguments arguments = tiny_arguments(folder_ / "a");
  arguments.save_strategy = "no";
  Trainer unbroken(Model::from_config(kTinyBert), arguments);
  unbroken.set_train_data(tiny_data());
  unbroken.train();
  EXPECT_FALSE(unbroken.interrupted());
  const auto expected = weights_of(unbroken.model());
  const double rate = *find_number(unbroken.state().log_history.at(8), "learning_rate");
  for (const int64_t step : {1, 3, 5}) {
    const fs::path folder = folder_ / std::to_string(step);
    arguments.output_dir = folder.string();
    arguments.save_only_model = step == 5;  // which would leave nothing to resume from
    Trainer interrupted(Model::from_config(kTinyBert), arguments);
    interrupted.set_train_data(tiny_data());
    interrupted.add_callback(std::make_shared<InterruptAfter>(step));
    EXPECT_TRUE(interrupted.train().empty());
    ASSERT_EQ(interrupted.interrupted(), (folder / ("checkpoint-" + std::to_string(step))).string());
    EXPECT_EQ(interrupted.state().global_step, step);

    Trainer resumed(Model::from_config(kTinyBert), arguments);
    resumed.set_train_data(tiny_data());
    EXPECT_FALSE(resumed.train("true").empty());
    EXPECT_EQ(weights_of(resumed.model()), expected) << step;
    EXPECT_EQ(find_number(resumed.state().log_history.at(8), "learning_rate"), rate);
  }
  // Asked after its last update, a run ends as ever.
  arguments.output_dir = (folder_ / "9").string();
  Trainer last(Model::from_config(kTinyBert), arguments);
  last.set_train_data(tiny_data());
  last.add_callback(std::make_shared<InterruptAfter>(9));
  EXPECT_FALSE(last.train().empty());
  EXPECT_FALSE(last.interrupted());
}

TEST_F(TrainerRun, WeightsThatAreNotFiniteAreNeverSaved) {
  TrainingArguments arguments = tiny_arguments(folder_);
  arguments.save_steps = 2;
  // The weights are broken by what comes after the fourth update.
  const auto break_weights = [](Trainer& trainer) {
    trainer.set_train_data(tiny_data());
    trainer.set_step_reports([&model = trainer.model()](const StepReport& report) {
      if (report.step != 4) return;
      Tensor& bias = model.parameters().back()->value;
      bias = Tensor::from(std::vector<float>(static_cast<size_t>(bias.size()), std::nanf("")), bias.shape());
      bias.set_requires_grad();
    });
  };
  Trainer trainer(Model::from_config(kTinyBert), arguments);
  break_weights(trainer);
  std::string message = test::message_of([&] { trainer.train(); });
  EXPECT_NE(message.find("are not saved"), std::string::npos) << message;
  EXPECT_NE(message.find("checkpoint-2"), std::string::npos) << message;
  EXPECT_EQ(last_whole_checkpoint(folder_.path()), "checkpoint-2");
  fs::remove_all(folder_ / "checkpoint-2");

  arguments.save_steps = 3;
  Trainer later(Model::from_config(kTinyBert), arguments);
  break_weights(later);
  message = test::message_of([&] { later.train(); });
  EXPECT_NE(message.find("the loss is nan"), std::string::npos) << message;
  EXPECT_NE(message.find("at step 5"), std::string::npos) << message;
  EXPECT_NE(message.find("checkpoint-3"), std::string::npos) << message;
  EXPECT_NE(message.find("--learning_rate"), std::string::npos) << message;
  for (const LogRecord& record : later.state().log_history)
    for (const char* name : {"loss", "grad_norm"}) EXPECT_TRUE(std::isfinite(find_number(record, name).value_or(NAN)));
  EXPECT_EQ(later.state().log_history.size(), 4u);
  EXPECT_NE(test::message_of([&] { later.save_model(); }).find("are not saved"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "model.safetensors"));
}

TEST_F(TrainerRun, RefusesAnEvaluationWithoutDataBeforeTheFirstUpdate) {
  for (const char* asks : {"eval_strategy", "eval_on_start", "load_best_model_at_end"}) {
    TrainingArguments arguments = tiny_arguments(folder_);
    arguments.eval_strategy = std::string(asks) == "eval_on_start" ? "no" : "epoch";
    arguments.save_strategy = "epoch";
    arguments.eval_on_start = std::string(asks) == "eval_on_start";
    arguments.load_best_model_at_end = std::string(asks) == "load_best_model_at_end";
    Trainer trainer(Model::from_config(kTinyBert), arguments);
    trainer.set_train_data(tiny_data());
    trainer.set_step_reports([](const StepReport&) { FAIL() << "an update was made"; });
    const std::string message = test::message_of([&] { trainer.train(); });
    EXPECT_TRUE(message.starts_with(asks)) << message;
    EXPECT_NE(message.find("validation_file"), std::string::npos) << message;
  }
}

TEST_F(TrainerRun, ResumingTellsWhatContradictsTheCheckpoint) {
  Trainer trainer(Model::from_config(kTinyBert), tiny_arguments(folder_ / "a"));
  trainer.set_train_data(tiny_data());
  trainer.train();
  const std::string checkpoint = (folder_ / "a" / "checkpoint-4").string();

  std::string config = kTinyBert;
  config.replace(config.find("BertForSequenceClassification"), 29, "BertForTokenClassification");
  Trainer other(Model::from_config(config), tiny_arguments(folder_ / "b"));
  other.set_train_data(tiny_data());
  const std::string message = test::message_of([&] { other.train(checkpoint); });
  EXPECT_NE(message.find("is a checkpoint of BertForSequenceClassification, and this run trains "
                         "BertForTokenClassification"),
            std::string::npos)
      << message;

  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) said.emplace_back(text);
  });
  for (const int64_t rows : {23, 19}) {
    TrainingData data = tiny_data();
    data.rows = rows;
    Trainer resumed(Model::from_config(kTinyBert), tiny_arguments(folder_ / "c"));
    resumed.set_train_data(data);
    resumed.train(checkpoint);
    EXPECT_EQ(said.size(), rows == 23 ? 0u : 1u);
  }
  set_log_sink({});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("checkpoint-4: step 4 was at epoch"), std::string::npos) << said[0];
}

class GoldenTrainer : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTrainer, LogsWhatTrainerLogged) {
  const fs::path folder = test::folder_of_case(GetParam(), test::GoldenSet::kLibraries, "trainer");
  const fs::path golden = folder.parent_path();
  const test::TemporaryFolder output;
  const std::string data = folder.filename().string().starts_with("gpt2") ? "data-gpt2" : "data-bert";
  Json json = read_json(folder / "training_args.json");
  json["model_name_or_path"] = (golden / data / "model").string();
  json["train_file"] = (golden / data / "train.jsonl").string();
  json["validation_file"] = (golden / data / "validation.jsonl").string();
  json["output_dir"] = output.string();
  const TrainArguments arguments = parse_train_json(dump_json(json), "training_args.json");
  TaskSetup task = prepare_task(arguments);
  Trainer trainer(std::move(task.model), arguments.training);
  configure_trainer(trainer, task);
  trainer.train();
  trainer.evaluate();
  const Json expected = read_json(folder / "log_history.json");
  const auto& got = trainer.state().log_history;
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    for (const auto& [name, value] : expected[i].items()) {
      const auto number = find_number(got[i], name);
      ASSERT_TRUE(number.has_value()) << name << " of record " << i;
      const double tolerance =
          name == "learning_rate" || name == "epoch" ? 1e-12 : 2e-4 + 2e-3 * std::abs(value.get<double>());
      EXPECT_NEAR(*number, value.get<double>(), tolerance) << name << " of record " << i;
    }
  fs::remove_all(output);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTrainer,
                         testing::ValuesIn(test::golden_cases("training_args.json", test::GoldenSet::kLibraries,
                                                              "trainer")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
