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

// Of models that read pictures beside the tokens: those of each row on an axis of their own, filled up with black ones
// to as many as the row with the most has, and cross_attention_mask, which says by the places of `image_token` which
// tokens see which. Refuses rows that have other numbers of places than pictures.
void add_grouped_pictures(Batch& batch, std::span<const std::vector<ImageProcessor::Pixels>> rows, int64_t image_token);

// `data` with the pictures of each of its rows (files or URLs), which are read when a batch is made.
TrainingData with_pictures(TrainingData data, std::vector<std::vector<std::string>> pictures,
                           std::shared_ptr<const ImageTextProcessor> processor);

}  // namespace transom
