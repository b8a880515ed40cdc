// SPDX-License-Identifier: Apache-2.0
// Which files of a repository make a model; the rest (other frameworks' weights, pictures, training state) stays there.
#pragma once

#include <span>
#include <string_view>

#include "files/hub/repository.h"

namespace transom {

// Names of the files beside the weights that belong to a model.
std::span<const std::string_view> description_files();
// What of these there is: configurations, tokenizer, preprocessor, modules of sentence-transformers.
void fetch_descriptions(Repository& repository);
// The first that there is of model.safetensors, pytorch_model.bin, tf_model.h5, flax_model.msgpack, or the index of one
// with all shards. Throws where there is none.
void fetch_weights(Repository& repository);

}  // namespace transom
