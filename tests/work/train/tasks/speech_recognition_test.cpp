// SPDX-License-Identifier: Apache-2.0
// From sounds and transcripts to a model that hears them.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "inputs/data/text/padding.h"
#include "inputs/text/slow_tokenizers/ctc_vocabulary.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "work/train/sound_files.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

class SpeechTraining : public testing::Test {
 protected:
  void SetUp() override {
    // A high tone is a, a low one b.
    write_file(folder_ / "ab.wav", test::tones({{3000, 1200}, {300, 1200}}));
    write_file(folder_ / "ba.wav", test::tones({{300, 1200}, {3000, 1200}}));
    write_file(folder_ / "a.wav", test::tones({{3000, 1600}}));
    write_file(folder_ / "long.wav", test::tones({{3000, 32000}}));
    write_file(folder_ / "rows.csv", "audio,text\nab.wav,A b!\nba.wav,b a\na.wav,a\nlong.wav,a\n");
    write_file(folder_ / "config.json", test::small_speech_model("Wav2Vec2ForCTC"));
  }

  TrainArguments arguments() const {
    TrainArguments result;
    result.script.config_name = (folder_ / "config.json").string();
    result.script.train_file = (folder_ / "rows.csv").string();
    result.script.validation_file = result.script.train_file;
    result.script.chars_to_ignore = {"!", ","};
    result.script.max_duration_in_seconds = 1;
    result.script.freeze_feature_encoder = false;
    result.script.mask_time_prob = 0;
    result.training.output_dir = (folder_ / "out").string();
    result.training.per_device_train_batch_size = 3;
    result.training.num_train_epochs = 600;
    result.training.learning_rate = 5e-3;
    result.training.do_train = result.training.do_eval = true;
    result.training.resolve();
    return result;
  }
  test::TemporaryFolder folder_;
};

TEST_F(SpeechTraining, TheVocabularyIsThatOfTheTranscripts) {
  const TaskSetup task = prepare_task(arguments());
  EXPECT_EQ(task.train->rows, 3);  // the long sound is left out
  task.save_tokenizer((folder_).string());
  const Json vocabulary = parse_json(read_file(folder_ / "vocab.json"), "vocab.json");
  EXPECT_EQ(vocabulary, Json({{"|", 0}, {"a", 1}, {"b", 2}, {"[UNK]", 3}, {"[PAD]", 4}}));
  const CtcVocabulary again = CtcVocabulary::read(folder_);
  EXPECT_EQ(again.pad_id(), 4);
  EXPECT_EQ(again.ids("b ax"), (std::vector<int64_t>{2, 0, 1, 3}));
  EXPECT_EQ(again.text(again.characters(std::vector<int64_t>{1, 1, 0, 2}, false)), "aa b");
}

TEST_F(SpeechTraining, BatchesArePaddedWithMasks) {
  const TaskSetup task = prepare_task(arguments());
  const Batch batch = task.train->batch({0, 2});
  EXPECT_EQ(batch.arrays.at("input_values").shape, (std::vector<int64_t>{2, 2400}));
  EXPECT_EQ(batch.sequences.at("attention_mask").values[2400 + 1599], 1);
  EXPECT_EQ(batch.sequences.at("attention_mask").values[2400 + 1600], 0);
  EXPECT_EQ(batch.sequences.at("labels").values, (std::vector<int64_t>{1, 0, 2, 0, 1, 0, -100, -100}));
}

TEST_F(SpeechTraining, LearnsWhatIsSaid) {
  write_file(folder_ / "rows.csv", "audio,text\nab.wav,ab\nba.wav,ba\na.wav,a\n");
  TrainArguments given = arguments();
  given.training.per_device_eval_batch_size = 1;  // padding is heard too
  TaskSetup task = prepare_task(given);
  Trainer trainer(std::move(task.model), given.training);
  configure_trainer(trainer, task);
  trainer.train();
  double rate = 1;
  for (const auto& [name, value] : trainer.evaluate())
    if (name == "eval_wer") rate = value;
  EXPECT_EQ(rate, 0);
  trainer.save_model();
  for (const char* file : {"vocab.json", "tokenizer_config.json", "preprocessor_config.json"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / file)) << file;
}

TEST_F(SpeechTraining, FrozenConvolutionsStay) {
  TrainArguments given = arguments();
  given.script.freeze_feature_encoder = true;
  given.training.max_steps = 2;
  TaskSetup task = prepare_task(given);
  std::map<std::string, std::vector<float>> before;
  for (const auto& parameter : task.model->parameters()) before[parameter->name] = parameter->value.to_vector<float>();
  Trainer trainer(std::move(task.model), given.training);
  configure_trainer(trainer, task);
  trainer.train();
  for (const auto& parameter : trainer.model().parameters()) {
    const bool frozen = parameter->name.find("conv_layers") != std::string::npos;
    if (frozen) {
      EXPECT_EQ(parameter->value.to_vector<float>(), before[parameter->name]) << parameter->name;
    }
    if (parameter->name == "lm_head.weight") {
      EXPECT_NE(parameter->value.to_vector<float>(), before[parameter->name]);
    }
  }
}

TEST_F(SpeechTraining, AFileThatIsNotThereIsNamed) {
  write_file(folder_ / "rows.csv", "audio,text\nnone.wav,a\n");
  EXPECT_NE(test::message_of([&] { prepare_task(arguments()); }).find("row 1: there is no file 'none.wav'"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
