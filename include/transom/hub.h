// SPDX-License-Identifier: Apache-2.0
// Models by name, as in Transformers: a directory, else an id of the Hugging Face Hub. Ids are looked up in the cache
// of Python's huggingface_hub, and downloaded into it.
//
// The environment is that of huggingface_hub: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_ENDPOINT, HF_TOKEN,
// HF_TOKEN_PATH, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE, HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT (seconds),
// HF_HUB_DISABLE_PROGRESS_BARS, HF_HUB_DISABLE_IMPLICIT_TOKEN.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace transom {

struct HubOptions {
  std::string revision = "main";         // a branch, a tag or a commit
  std::optional<std::string> token;      // default: HF_TOKEN, else what `hf auth login` stored
  std::optional<std::string> cache_dir;  // default: HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub
  bool local_files_only = false;         // nothing is downloaded, as with HF_HUB_OFFLINE=1
  // Called while a file is downloaded, with the bytes received and expected (0: not known).
  std::function<void(const std::string& file, int64_t done, int64_t total)> progress;
};

// The directory that holds the model's configuration, tokenizer and weights: `name_or_path` itself if it is one, else
// the snapshot of that id in the cache, completed by downloads. A branch is looked up again each time with one request,
// as Transformers does; if the Hub cannot be reached, the cached snapshot is used. A cached commit needs no
// request. Throws Error: no such directory, id, revision or file; access refused; offline and not in the cache; a
// download that breaks off, stalls, or has another size or hash than announced (nothing of it stays in the cache).
std::filesystem::path resolve_model(const std::string& name_or_path, const HubOptions& options = {});

// The same without the weights.
std::filesystem::path resolve_tokenizer(const std::string& name_or_path, const HubOptions& options = {});

}  // namespace transom
