// SPDX-License-Identifier: Apache-2.0
// document-question-answering by a model that finds answers among the words of a page, which another has read.
#pragma once

#include <memory>
#include <string>

#include "transom/model.h"
#include "work/pipelines/pipeline.h"

namespace transom {

// Whether the model of a directory is one.
bool answers_from_words(const std::string& directory);
std::unique_ptr<Pipeline> make_page_questions(const std::string& directory, const LoadOptions& options);
TaskParameters page_question_parameters();

}  // namespace transom
