// SPDX-License-Identifier: Apache-2.0
// The files that keep blocks of the cache of one model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/generative.h"
#include "models/nn/attention/paged_cache.h"
#include "transom/engine.h"
#include "work/generation/engine/paged/kept/prefix_files.h"

namespace transom {

// 32 hexadecimal digits of all that keys and values in blocks of `block_size` tokens follow from besides the tokens:
// the configuration, every bit of the weights, what the cache keeps, the device, and the code that computes. Reads all
// weights once.
std::string prefix_fingerprint(const GenerativeModel& model, const std::vector<KeyValueShape>& shapes,
                               int64_t block_size);

// Those in options.prefix_cache_directory; null where that is "". Throws kUnsupported for a model with adapters of its
// own, whose settings are not in its configuration, and over several processes.
std::unique_ptr<PrefixFiles> prefix_files_of(const GenerativeModel& model, const EngineOptions& options,
                                             const std::vector<KeyValueShape>& shapes);

}  // namespace transom
