// SPDX-License-Identifier: Apache-2.0
// Training from scratch: a model of a configuration, with new weights.
#pragma once

#include <filesystem>

#include "transom/training_arguments.h"

namespace transom {

// What prepares the inputs of a model.
enum class Preprocessing { kTokenizer, kImages, kSounds, kTokenizerAndImages, kNone };

// With --config_name and no --model_name_or_path: writes a new model (of --config_name's architecture, seeded by
// --seed) with what `preprocessing` needs into output_dir/new_model, if there is none yet, and names that as the model.
// Without
// --image_processor_name or --feature_extractor_name, and without such a file beside the configuration, images are
// prepared as ViT's of the configuration's size, sounds as Wav2Vec2's at 16 kHz.
void start_from_scratch(TrainArguments& arguments, Preprocessing preprocessing = Preprocessing::kTokenizer);

// Copies preprocessor_config.json and processor_config.json, where there are such files.
void copy_preprocessor(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace transom
