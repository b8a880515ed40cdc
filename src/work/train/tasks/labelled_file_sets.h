// SPDX-License-Identifier: Apache-2.0
// What the classification of pictures, videos and sounds share: files for training and validation, and their classes.
#pragma once

#include <optional>

#include "inputs/data/tables/labelled_files.h"
#include "work/train/tasks/task_data.h"

namespace transom {

struct LabelledFileKind {
  bool (*is_wanted)(const std::filesystem::path&);  // by its name
  std::string_view what;                            // "images"
  std::string column;                               // of a table, with the names of the files
  FileLister* list = visible_files;                 // what lies in the folder of a class
};

struct LabelledFileSets {
  std::optional<LabelledFiles> train, validation;
  std::string reads;                    // as TaskSetup
  std::vector<std::string> new_labels;  // empty where the checkpoint has these classes: then in its order
};

// From train_dir and validation_dir, or from the rows of files. Where there is no validation set and one is asked for,
// a part of the training set (train_val_split) at random; cut to max_train_samples and max_eval_samples.
LabelledFileSets labelled_file_sets(const TrainArguments& arguments, const TaskFiles& files,
                                    const LabelledFileKind& kind);

}  // namespace transom
