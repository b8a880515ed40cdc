// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/captioned_pictures.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/labelled_files.h"
#include "work/train/tasks/read_report.h"

namespace transom {
namespace {

struct PictureColumns {
  size_t image = 0, caption = 0;
  std::optional<size_t> control;
};

// By their names; pictures without a known one are in the first column.
PictureColumns picture_columns(const Dataset& data, const ScriptArguments& script, bool controlled) {
  const size_t least = controlled ? 3 : 2;
  if (data.columns().size() < least)
    fail("{}: expected columns of image files{} and captions, found {} columns", data.name(),
         controlled ? ", of pictures that the ControlNet sees," : "", data.columns().size());
  PictureColumns found;
  if (script.image_column) found.image = need_column(data, *script.image_column, "image_column");
  else
    for (const char* name : {"image_path", "image", "file_name"})
      if (const auto column = data.find(name)) found.image = *column;
  if (script.caption_column) found.caption = need_column(data, *script.caption_column, "caption_column");
  else if (const auto column = data.find("caption")) found.caption = *column;
  else if (const auto text = data.find("text")) found.caption = *text;
  else
    fail("{}: expected captions in a column 'caption' or 'text', found {}; name it with --caption_column", data.name(),
         fmt::join(column_names(data), ", "));
  if (controlled) found.control = need_column(data, script.conditioning_image_column, "conditioning_image_column");
  return found;
}

// The table of a folder of pictures: metadata.jsonl or metadata.csv, with the column file_name.
Dataset table_of_folder(const std::string& folder) {
  for (const char* name : {"metadata.jsonl", "metadata.csv"})
    if (const fs::path file = fs::path(folder) / name; file_exists(file)) return Dataset::load(file);
  fail("{}: expected metadata.jsonl or metadata.csv, with the captions of the pictures; found neither", folder);
}

std::vector<std::string> captions_of(const Dataset& data, int64_t row, size_t column) {
  const Row values = data.row(row);
  if (const auto* several = std::get_if<std::vector<std::string>>(&values[column])) {
    if (several->empty())
      fail("{}: column {}: expected captions, found none", data.where(row), data.columns()[column].name);
    return *several;
  }
  return {text_of(data, row, values, column)};
}

void add_captioned(LatentTraining& training, const Dataset& given, const PictureColumns& columns, bool trains) {
  const bool lists = given.columns()[columns.caption].type == ColumnType::kStrings;
  const Dataset data = lists ? given : given.with_text(columns.caption);
  const auto pictures = training.pictures(trains);
  for (int64_t i = 0; i < data.size(); ++i) {
    NoisyPictures::Row row{.file = file_of(data, i, columns.image)};
    if (columns.control) row.control = file_of(data, i, *columns.control);
    for (const std::string& caption : captions_of(data, i, columns.caption))
      row.texts.push_back(training.place_of(caption));
    if (!trains) row.texts.resize(1);
    pictures->rows.push_back(std::move(row));
  }
  training.add_data(pictures, trains);
}

}  // namespace

void prepare_captioned(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup, bool controlled,
                       const std::function<std::unique_ptr<LatentTraining>()>& begin) {
  const ScriptArguments& script = arguments.script;
  TaskFiles all = files;
  const auto of_folder = [&](const std::optional<std::string>& folder, std::optional<Dataset>& data,
                             std::optional<int64_t> limit) {
    if (!folder || data) return;
    data = table_of_folder(*folder);
    if (limit) data = data->first(std::min(*limit, data->size()));
  };
  of_folder(script.train_dir, all.train, script.max_train_samples);
  of_folder(script.validation_dir, all.validation, script.max_eval_samples);
  const PictureColumns columns = picture_columns(all.any(), script, controlled);
  std::vector<std::string> parts{column_part("image", all.any(), columns.image),
                                 column_part("caption", all.any(), columns.caption)};
  if (columns.control) parts.push_back(column_part("what the ControlNet sees", all.any(), *columns.control));
  setup.reads = what_is_read(parts, all);
  const std::unique_ptr<LatentTraining> training = begin();
  if (all.train) add_captioned(*training, *all.train, picture_columns(*all.train, script, controlled), true);
  if (all.validation)
    add_captioned(*training, *all.validation, picture_columns(*all.validation, script, controlled), false);
  training->finish();
}

}  // namespace transom
