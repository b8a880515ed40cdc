// SPDX-License-Identifier: Apache-2.0
// Results as files: vectors as NumPy and safetensors read them, pictures, masks and boxes as PNG, sounds
// as WAV, what was said as subtitles or text.
#pragma once

#include <string>
#include <vector>

#include "work/pipelines/task_record.h"

namespace transom {

// The endings of the files that a result of the task may be written to, the usual one first; empty: it is no file.
std::vector<std::string> file_endings(const TaskRecord& task);
// "file of the vectors, .npy or .safetensors": of the flag that names the file. Empty where file_endings() is.
std::string file_help(const TaskRecord& task);
// The picture that a result is, or has; null where it has none, or several.
const Picture* only_picture(const TaskResult& result);
// Refuses a name that has none of those endings. `several`: the results of more than one input, which are a file
// together only as vectors; of others `path` is a folder.
void expect_result_file(const TaskRecord& task, const std::string& path, bool several);
// Numbers of one shape as f32 [N, ...] in the order of the inputs, in safetensors under the name `embeddings` (of
// depths `predicted_depth`). A picture or sound of one input is the file itself; of several inputs each stands in the
// folder under the name of its input, and of several pictures of one input each has a number. Boxes are drawn into
// their pictures. Every file appears whole or not at all. `names` are those of the inputs; boxes need the inputs
// themselves.
void write_results(const TaskRecord& task, const std::string& path, const std::vector<TaskResult>& results,
                   const std::vector<std::string>& names, const std::vector<TaskInput>& inputs = {});

}  // namespace transom
