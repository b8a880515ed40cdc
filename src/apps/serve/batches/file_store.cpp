// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/batches/file_store.h"

#include <algorithm>
#include <ctime>

#include "apps/serve/api/api_error.h"
#include "apps/serve/openai/identifiers.h"
#include "base/files/files.h"
#include "base/terminal/log.h"

namespace transom::serve {
namespace {

// Of a file of facts, "<id>.json", which stands beside "<id>".
std::optional<StoredFile> read_facts(const fs::path& path) {
  const Json json = parse_json(read_file(path, 1 << 20), path.string());
  StoredFile file{.id = path.stem().string()};
  if (!json.is_object() || !json.contains("filename") || !json["filename"].is_string() || !json.contains("purpose") ||
      !json["purpose"].is_string() || !json.contains("bytes") || !json["bytes"].is_number_integer() ||
      !json.contains("created_at") || !json["created_at"].is_number_integer() ||
      !file_exists(path.parent_path() / file.id))
    return std::nullopt;
  file.name = json["filename"], file.purpose = json["purpose"];
  file.bytes = json["bytes"], file.created_at = json["created_at"];
  return file;
}

// The lock of a folder, which is made.
fs::path lock_in(const fs::path& folder) {
  make_directories(folder);
  return folder / ".lock";
}

}  // namespace

Json json_of_file(const StoredFile& file) {
  return {{"id", file.id},         {"object", "file"},        {"bytes", file.bytes},  {"created_at", file.created_at},
          {"filename", file.name}, {"purpose", file.purpose}, {"status", "processed"}};
}

FileStore::FileStore(fs::path folder) : folder_(std::move(folder)), lock_(lock_in(folder_), std::nullopt) {
  for (const fs::path& path : list_directory(folder_)) {
    if (path.extension() != ".json" || !path.filename().string().starts_with("file-")) continue;
    try {
      if (auto file = read_facts(path)) files_.emplace(file->id, *file);
      else
        log(LogLevel::kWarning,
            fmt::format("{}: not the facts of a file of this server; it is left out", path.string()));
    } catch (const Error& error) {
      log(LogLevel::kWarning, fmt::format("{}; it is left out", error.what()));
    }
  }
}

StoredFile FileStore::enter(StoredFile file) {
  write_file(folder_ / (file.id + ".json"), dump_json(json_of_file(file)));
  const std::lock_guard lock(mutex_);
  files_[file.id] = file;
  return file;
}

StoredFile FileStore::add(const std::string& name, const std::string& purpose, std::string_view content) {
  {
    const std::lock_guard lock(mutex_);
    if (files_.size() >= kMostFiles)
      throw ApiError(400, fmt::format("the server holds {} files, and no more: delete some", kMostFiles));
  }
  StoredFile file{new_identifier("file-"), name, purpose, static_cast<int64_t>(content.size()), std::time(nullptr)};
  write_file(folder_ / file.id, content);
  return enter(std::move(file));
}

StoredFile FileStore::take(const fs::path& path, const std::string& name, const std::string& purpose) {
  std::error_code failed;
  const auto bytes = static_cast<int64_t>(fs::file_size(path, failed));
  StoredFile file{new_identifier("file-"), name, purpose, failed ? 0 : bytes, std::time(nullptr)};
  fs::rename(path, folder_ / file.id, failed);
  if (failed) fail("{}: cannot be renamed to {}: {}", path.string(), (folder_ / file.id).string(), failed.message());
  return enter(std::move(file));
}

StoredFile FileStore::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end()) throw ApiError(404, fmt::format("No such File object: {}", quoted(id, 60)), "id");
  return found->second;
}

std::string FileStore::content(const std::string& id) const { return read_file(folder_ / find(id).id); }

void FileStore::remove(const std::string& id) {
  const StoredFile file = find(id);
  {
    const std::lock_guard lock(mutex_);
    files_.erase(file.id);
  }
  remove_tree(folder_ / (file.id + ".json"));
  remove_tree(folder_ / file.id);
}

std::vector<StoredFile> FileStore::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<StoredFile> files;
  for (const auto& [id, file] : files_) files.push_back(file);
  std::ranges::stable_sort(files, std::greater<>(), &StoredFile::created_at);
  return files;
}

}  // namespace transom::serve
