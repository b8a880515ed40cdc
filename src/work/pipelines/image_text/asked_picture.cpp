// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/image_text/asked_picture.h"

#include "base/error.h"
#include "inputs/text/unicode/clean_up.h"
#include "work/pipelines/pipeline.h"

namespace transom {

AskedPicture asked_picture(const TaskInput& input) {
  const TextInput& text = text_input(input);
  if (text.images.size() != 1)
    fail("expected a question about one picture, found {} {}", text.images.size(),
         text.images.empty() ? "pictures" : "of them");
  return {&text.text, &text.images[0]};
}

AnswerSpan written_answer(const std::string& text) {
  return {.answer = text::stripped(text), .score = std::nullopt, .start = -1, .end = -1};
}

}  // namespace transom
