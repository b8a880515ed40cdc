// SPDX-License-Identifier: Apache-2.0
// What tasks share that ask about one picture.
#pragma once

#include <string>

#include "transom/tasks.h"

namespace transom {

struct AskedPicture {
  const std::string* question;
  const PictureSource* picture;
};
// Refuses inputs without a question, and with more or fewer pictures than one.
AskedPicture asked_picture(const TaskInput& input);

// An answer that a model wrote, without spaces around it.
AnswerSpan written_answer(const std::string& text);

}  // namespace transom
