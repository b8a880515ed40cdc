// SPDX-License-Identifier: Apache-2.0
// What requests for pictures have in common. Beside OpenAI's fields they take those of the task: negative_prompt,
// num_inference_steps, guidance_scale, guidance_rescale, seed, scheduler, eta, clip_skip, true_cfg_scale,
// max_sequence_length, and control_image as a data: URL with what is said of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/serve/api/call.h"
#include "apps/serve/api/request_json.h"
#include "transom/tasks.h"

namespace transom::serve {

inline constexpr size_t kLongestImagePrompt = 1 << 20;  // bytes

// The parameters of the task.
Json drawing_parameters(RequestFields& fields);
// How pictures are to be sent, which is one way alone.
void expect_picture_form(RequestFields& fields, const std::string& path);
// Call it last: each field that nobody knows may be one that changes the picture.
void refuse_unknown_drawing(const RequestFields& fields);
// As base64 of PNG files.
void reply_pictures(const std::shared_ptr<Call>& call, const std::vector<TaskResult>& results);

}  // namespace transom::serve
