// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/media/written_speech.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "files/hub/adapters.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/text/unicode/unicode.h"
#include "models/loading/load_changed.h"
#include "work/train/arguments/argument_tables.h"
#include "work/train/setup/freeze.h"
#include "work/train/setup/new_model.h"
#include "work/train/tasks/media/spoken_texts.h"
#include "work/train/tasks/media/transcribed_sounds.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"
#include "work/train/tasks/written_texts.h"

namespace transom {
namespace {

TranscribedSounds spoken_rows(const Dataset& data, const SpokenTexts& texts, SoundRows form,
                              const ScriptArguments& script, int64_t most_tokens) {
  const size_t audio = need_column(data, script.audio_column_name, "audio_column_name"),
               text = need_column(data, script.text_column_name.value_or("text"), "text_column_name");
  const Dataset rows = data.with_text(text);
  for (int64_t row = 0; row < rows.size(); ++row) form.files.push_back(file_of(rows, row, audio));
  return transcribed_sounds(form, script, [&](int64_t i) {
    const std::string said = text_of(rows, i, rows.row(i), text);
    const std::vector<int64_t> labels = texts.labels(script.do_lower_case ? text::without_case(said) : said);
    if (static_cast<int64_t>(labels.size()) > most_tokens)
      fail("{}: the text has {} tokens, but the model writes at most {}", rows.where(i), labels.size(), most_tokens);
    return labels;
  });
}

// Ones for the frames that hold some of the sound's samples.
void add_frame_mask(Batch& batch, const std::vector<int64_t>& samples, int64_t fixed_length) {
  const int64_t frames = batch.arrays.at("input_features").shape.at(2),
                hop = std::max<int64_t>(fixed_length / frames, 1);
  std::vector<std::vector<int64_t>> ones;
  for (const int64_t count : samples)
    ones.emplace_back(static_cast<size_t>(std::min((count + hop - 1) / hop, frames)), 1);
  std::vector<const std::vector<int64_t>*> rows;
  for (const auto& row : ones) rows.push_back(&row);
  batch.sequences["attention_mask"] = pad(rows, frames, 0, false);
}

// `with_mask`: batches say which frames are sound, since what is masked in training lies among them.
TrainingData as_training_data(TranscribedSounds&& labelled, bool with_mask) {
  const auto rows = std::make_shared<const TranscribedSounds>(std::move(labelled));
  TrainingData result;
  result.rows = static_cast<int64_t>(rows->labels.size());
  result.lengths = rows->milliseconds;
  result.batch = [rows, with_mask](const std::vector<int64_t>& wanted) {
    Batch batch;
    rows->add_labels(batch, wanted);
    std::vector<int64_t> samples(wanted.size());
    rows->sounds.fill(batch, wanted, [&](Sound&& sound, size_t place) {
      samples[place] = static_cast<int64_t>(sound.samples.size());
      return std::move(sound);
    });
    if (with_mask) add_frame_mask(batch, samples, rows->sounds.extractor->fixed_length());
    return batch;
  };
  return result;
}

// The texts that the model writes of a batch's sounds.
NamedTensors written(const Model& model, const SpokenTexts& texts, GenerationConfig config, int64_t most_tokens,
                     const NamedTensors& inputs) {
  const Tensor features = inputs.at("input_features"), beginnings = texts.beginnings(model, features);
  // As Transformers has it: the length is that of what comes behind the beginning.
  if (config.max_length) config.max_length = std::min(*config.max_length + beginnings.dim(1), most_tokens);
  const GenerationOutput output =
      generate(model, {{"input_features", features}, {"decoder_input_ids", beginnings}}, config);
  return written_tokens(output.sequences, kIgnoredLabel);
}

void write_in_evaluations(const ScriptArguments& script, const std::shared_ptr<const SpokenTexts>& texts,
                          int64_t most_tokens, TaskSetup& setup) {
  GenerationConfig config = GenerationConfig::from_pretrained(base_of_adapters(script.model_name_or_path).string());
  config.forced_decoder_ids.clear();  // the beginnings of texts have what they would say
  if (script.generation_max_length) config.max_length = script.generation_max_length, config.max_new_tokens.reset();
  if (script.generation_num_beams) config.num_beams = *script.generation_num_beams;
  setup.predict = [model = setup.model.get(), texts, config, most_tokens](const NamedTensors& inputs) {
    return written(*model, *texts, config, most_tokens, inputs);
  };
  setup.metric_names = script.eval_metrics;
  setup.compute_metrics = [texts, names = script.eval_metrics,
                           shown = samples_to_show(script, 3)](const Predictions& predictions) -> Metrics {
    const Predictions::Array* found = find_output(predictions, kWrittenTexts);
    if (!found || predictions.labels.empty() || predictions.rows == 0) return {};
    const auto text = [&](const TokenIds& tokens) { return texts->text(tokens); };
    const std::vector<std::string> references = texts_of_rows(predictions.labels, predictions.rows, text),
                                   said = texts_of_rows(found->values, predictions.rows, text);
    show_samples(shown, references, said);
    return error_rates(names, references, said);
  };
}

}  // namespace

void prepare_written_speech(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const std::filesystem::path directory = script.model_name_or_path;
  const std::filesystem::path preprocessor = script.feature_extractor_name.value_or(directory.string()),
                              tokenizer = script.tokenizer_name.value_or(directory.string());
  refuse_given(arguments,
               {"chars_to_ignore", "unk_token", "pad_token", "word_delimiter_token", "ctc_loss_reduction",
                "ctc_zero_infinity", "add_adapter", "feat_proj_dropout", "final_dropout", "attention_dropout",
                "activation_dropout", "hidden_dropout", "layerdrop", "mask_time_prob", "mask_time_length",
                "mask_feature_prob", "mask_feature_length", "freeze_feature_encoder", "pad_to_multiple_of"},
               fmt::format("is for models with a head for CTC; {} writes what was said token by token",
                           script.model_name_or_path));
  setup.reads = what_is_read({fmt::format("sound: column {}", script.audio_column_name),
                              fmt::format("text: column {}", script.text_column_name.value_or("text"))},
                             files);
  const LoadOptions options = load_options(arguments, "automatic-speech-recognition");
  LoadReport report;
  const Json changes = files.train ? Json{{"apply_spec_augment", script.apply_spec_augment}} : Json::object();
  setup.model = load_changed(directory.string(), changes, options, &report);
  expect_weights(arguments, *setup.model, report, directory.string(), options.task);
  auto* writer = dynamic_cast<GenerativeModel*>(setup.model.get());
  if (!writer || !writer->has_encoder())
    fail("{}: expected a model that writes what was said, found {}", directory.string(), setup.model->architecture());
  if (script.freeze_encoder) freeze(*setup.model, "model.encoder.");

  const auto texts =
      std::make_shared<const SpokenTexts>(Tokenizer::from_pretrained(tokenizer.string()), *writer, script);
  if (files.train) texts->tell(*writer);
  const int64_t most_tokens = setup.model->config().get_int("max_target_positions", 448);
  const SoundRows form{{}, FeatureExtractor::read(preprocessor), false, std::nullopt};
  const bool masks = script.apply_spec_augment && setup.model->config().get_float("mask_time_prob", 0.05) > 0;
  const auto rows = [&](const Dataset& data, bool with_mask) {
    return as_training_data(spoken_rows(data, *texts, form, script, most_tokens), with_mask);
  };
  if (files.train) setup.train = rows(*files.train, masks);
  if (files.validation) setup.validation = rows(*files.validation, false);
  score_loss_only(setup);
  if (script.predict_with_generate) write_in_evaluations(script, texts, most_tokens, setup);
  setup.save_tokenizer = [texts, preprocessor](const std::string& output) {
    texts->tokenizer().save_pretrained(output);
    copy_preprocessor(preprocessor, output);
  };
}

}  // namespace transom
