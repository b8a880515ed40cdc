// SPDX-License-Identifier: Apache-2.0
// run_clip: pictures and captions. Each batch is a task of its own: to find for each picture its caption among those of
// the batch, and the other way round.
#include <algorithm>

#include "base/error.h"
#include "base/threads/threads.h"
#include "files/config/config.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/images/image_processor.h"
#include "work/train/setup/freeze.h"
#include "work/train/setup/new_model.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr int64_t kCaptionLength = 128;  // run_clip's max_seq_length

struct CaptionColumns {
  size_t image, caption;
};

CaptionColumns caption_columns(const Dataset& data, const ScriptArguments& script) {
  if (data.columns().size() < 2)
    fail("{}: expected a column of image files and one of captions, found {} columns", data.name(),
         data.columns().size());
  const auto column = [&](const std::optional<std::string>& name, std::string_view argument, std::string_view usual,
                          size_t otherwise) {
    return name ? need_column(data, *name, argument) : data.find(usual).value_or(otherwise);
  };
  return {column(script.image_column, "image_column", "image_path", 0),
          column(script.caption_column, "caption_column", "caption", 1)};
}

// Which patches of pictures there are, and how they lie.
void add_patches(Batch& batch, const std::vector<ImageProcessor::Pixels>& pictures) {
  const auto count = static_cast<int64_t>(pictures.size());
  for (const ImageProcessor::Pixels& picture : pictures) {
    FloatRows& mask = batch.arrays[picture.mask_name()];
    mask.shape = {count, picture.patches};
    mask.values.insert(mask.values.end(), picture.mask.begin(), picture.mask.end());
    for (const auto& [name, numbers] : picture.beside) {
      FloatRows& rows = batch.arrays[name];
      rows.shape = {count, static_cast<int64_t>(numbers.size())};
      rows.values.insert(rows.values.end(), numbers.begin(), numbers.end());
    }
  }
}

TrainingData captioned(const Dataset& given, const ScriptArguments& script, const TextEncoder& encoder,
                       const ImageProcessor& processor, int64_t length) {
  const CaptionColumns columns = caption_columns(given, script);
  const Dataset data = given.with_text(columns.caption);
  struct Rows {
    std::vector<std::filesystem::path> files;
    std::vector<Features> captions;
  };
  const auto rows = std::make_shared<Rows>();
  for (int64_t i = 0; i < data.size(); ++i) rows->files.push_back(file_of(data, i, columns.image));
  rows->captions = map_rows(data.size(), [&](int64_t i) {
    const EncodeOptions options{.truncation = Truncation::kLongestFirst, .max_length = length};
    return encoder.features(
        encoder.tokenizer().encode(text_of(data, i, data.row(i), columns.caption), std::nullopt, options));
  });
  PaddingOptions padding = encoder.padding(true);
  padding.max_length = length;
  TrainingData result;
  result.rows = data.size();
  result.batch = [rows, processor, padding](const std::vector<int64_t>& wanted) {
    std::vector<Features> captions;
    for (const int64_t row : wanted) captions.push_back(rows->captions[static_cast<size_t>(row)]);
    Batch batch = collate(captions, padding);
    std::vector<ImageProcessor::Pixels> pictures(wanted.size());
    parallel_for(wanted.size(),
                 [&](size_t i) { pictures[i] = processor(read_image(rows->files[static_cast<size_t>(wanted[i])])); });
    FloatRows& pixels = batch.arrays["pixel_values"];
    pixels.shape = pictures[0].shape();
    pixels.shape[0] = static_cast<int64_t>(wanted.size());
    if (pictures[0].patches > 0) add_patches(batch, pictures);
    for (const ImageProcessor::Pixels& picture : pictures)
      pixels.values.insert(pixels.values.end(), picture.values.begin(), picture.values.end());
    return batch;
  };
  return result;
}

}  // namespace

void prepare_image_text_contrast(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const std::filesystem::path directory = script.model_name_or_path;
  const std::filesystem::path preprocessor = script.image_processor_name.value_or(directory.string());
  for (const auto* data : {&files.train, &files.validation})
    if (*data) (*data)->with_text(caption_columns(**data, script).caption);
  const CaptionColumns columns = caption_columns(files.any(), script);
  setup.reads = what_is_read(
      {column_part("image", files.any(), columns.image), column_part("caption", files.any(), columns.caption)}, files);
  setup.model = load_model(arguments, directory.string(), load_options(arguments, "zero-shot-image-classification"));
  if (script.freeze_vision_model) freeze(*setup.model, "vision_model.");
  if (script.freeze_text_model) freeze(*setup.model, "text_model.");
  const TextEncoder encoder(arguments, *setup.model, kCaptionLength);
  // The positions that the text encoder has are the most.
  const int64_t length = std::min(
      encoder.max_length(), setup.model->config().get_object("text_config").get_int("max_position_embeddings", 77));
  const ImageProcessor processor = ImageProcessor::from_pretrained(preprocessor);
  if (files.train) setup.train = captioned(*files.train, script, encoder, processor, length);
  if (files.validation) setup.validation = captioned(*files.validation, script, encoder, processor, length);
  // The similarities of a batch mean nothing outside of it.
  setup.preprocess_outputs = [](const NamedTensors&) { return NamedTensors(); };
  setup.compute_metrics = [](const Predictions&) { return Metrics(); };
  setup.metric_names.emplace();
  encoder.save_into(setup);
  setup.save_tokenizer = [tokenizer = setup.save_tokenizer, preprocessor](const std::string& output) {
    if (tokenizer) tokenizer(output);
    copy_preprocessor(preprocessor, output);
  };
}

}  // namespace transom
