// SPDX-License-Identifier: Apache-2.0
// What the options and the environment say together, by the names and rules of huggingface_hub.
#pragma once

#include <chrono>
#include <string>

#include "base/files/files.h"
#include "transom/hub.h"

namespace transom {

struct HubSettings {
  fs::path cache;
  std::string endpoint;  // without a slash at its end
  std::string token;     // empty: none
  std::string offline;   // why nothing is downloaded ("HF_HUB_OFFLINE is set"); empty: it is
  std::string revision;
  std::chrono::seconds metadata_timeout{10};   // of a whole request that brings no file
  std::chrono::seconds download_timeout{10};   // without a byte
  std::chrono::milliseconds first_wait{1000};  // before a second try; doubled each time
  std::function<void(const std::string& file, int64_t done, int64_t total)> progress;

  // Throws where an environment variable is not what it must be.
  static HubSettings of(const HubOptions& options);
};

}  // namespace transom
