// SPDX-License-Identifier: Apache-2.0
// The pictures of a batch of chats, as vision-language models take them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transom/trainer.h"
#include "work/generation/image_text/image_text_processor.h"

namespace transom {

// Pictures of all texts one behind the other, under pixel_values and the other arguments that the processor knows of.
// Parts of pictures that have fewer are black. Refuses pictures of different sizes where the model takes one size.
void add_pictures(Batch& batch, std::span<const ImageProcessor::Pixels> pictures);

// `data` with the pictures of each of its rows (files or URLs), which are read when a batch is made.
TrainingData with_pictures(TrainingData data, std::vector<std::vector<std::string>> pictures,
                           std::shared_ptr<const ImageTextProcessor> processor);

}  // namespace transom
