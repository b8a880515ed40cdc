// SPDX-License-Identifier: Apache-2.0
// The contents of one file, into the cache: what an earlier try left is gone on with, the whole is checked before it
// gets its name.
#pragma once

#include <string>

#include "files/hub/cache.h"
#include "files/hub/remote.h"

namespace transom {

struct DownloadResult {
  std::string failure;      // why another try is worth it; empty: the blob is there
  bool progressed = false;  // there is notably more of the file than before
  bool damaged = false;     // it came whole but is not what was announced; all of it is discarded
  int64_t retry_after = 0;  // seconds that the server asks for
};

// One try. `where` ("owner/name: config.json") begins errors. Throws where another try cannot help: the disk is full,
// access is refused.
DownloadResult download_blob(HttpClient& http, const ModelCache& cache, const RemoteFile& file,
                             const HubSettings& settings, const std::string& name, const std::string& where);

}  // namespace transom
