// SPDX-License-Identifier: Apache-2.0
// What a run says first: what it reads. "text: column comment; label: 3 classes; 60 rows"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text/counted.h"
#include "inputs/data/labels.h"
#include "work/train/tasks/task_data.h"

namespace transom {

// "text: column comment", "texts: columns title and body, a pair".
std::string column_part(std::string_view what, const Dataset& data, size_t column);
std::string columns_part(const Dataset& data, const std::vector<size_t>& columns, bool joined);
// "label: 3 classes", with the column's name where that is another one.
std::string label_part(const Dataset& data, size_t column, const Labels& labels);
// "3 classes", or "2 of 3 classes" where the files have fewer than the model.
std::string classes_text(const Labels& labels);
// Refuses that two files of a run are read by columns of other names.
void expect_same_column(const Dataset& first, size_t column, const Dataset& other, size_t own,
                        std::string_view argument);
// The parts and the numbers of rows, in one line.
std::string what_is_read(const std::vector<std::string>& parts, const TaskFiles& files);
std::string what_is_read(const std::vector<std::string>& parts,
                         const std::vector<std::pair<int64_t, std::string>>& rows);

}  // namespace transom
