// SPDX-License-Identifier: Apache-2.0
#include "files/hub/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace transom {
namespace {

// Empty where it is not set.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

fs::path with_home(const std::string& path) {
  if (path == "~" || path.starts_with("~/")) {
    const std::string home = environment("HOME");
    if (home.empty()) fail("{}: HOME is not set, so ~ has no meaning", path);
    return path.size() > 2 ? fs::path(home) / path.substr(2) : fs::path(home);
  }
  return path;
}

fs::path hf_home() {
  if (const std::string home = environment("HF_HOME"); !home.empty()) return with_home(home);
  const std::string cache = environment("XDG_CACHE_HOME");
  return with_home(cache.empty() ? "~/.cache" : cache) / "huggingface";
}

fs::path cache_directory(const HubOptions& options) {
  if (options.cache_dir) return with_home(*options.cache_dir);
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string cache = environment(name); !cache.empty()) return with_home(cache);
  return hf_home() / "hub";
}

// Line ends and spaces around a token are dropped; anything else that a header cannot carry is refused.
std::string clean_token(std::string token, std::string_view where) {
  std::erase_if(token, [](char c) { return c == '\r' || c == '\n'; });
  const size_t begin = token.find_first_not_of(" \t");
  if (begin == token.npos) return {};
  token = token.substr(begin, token.find_last_not_of(" \t") - begin + 1);
  for (const char c : token)
    if (c <= ' ' || c > '~') fail("{}: expected a token of letters and digits; it has other characters", where);
  return token;
}

std::string find_token(const HubOptions& options) {
  if (options.token) return clean_token(*options.token, "token");
  if (is_true(environment("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return {};
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (std::string token = clean_token(environment(name), name); !token.empty()) return token;
  const std::string named = environment("HF_TOKEN_PATH");
  // Without a home there is no file either.
  if (named.empty() && environment("HF_HOME").empty() && environment("XDG_CACHE_HOME").empty() &&
      environment("HOME").empty())
    return {};
  const fs::path file = named.empty() ? hf_home() / "token" : with_home(named);
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return {};
  return clean_token(read_file(file, 1 << 16), file.string());
}

std::string find_endpoint() {
  std::string endpoint = environment("HF_ENDPOINT");
  if (endpoint.empty()) endpoint = "https://huggingface.co";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool plain = std::all_of(endpoint.begin(), endpoint.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!plain || !(endpoint.starts_with("https://") || endpoint.starts_with("http://")))
    fail("HF_ENDPOINT: expected an address such as https://huggingface.co, found {}", quoted(endpoint));
  return endpoint;
}

std::string find_offline(const HubOptions& options) {
  if (options.local_files_only) return "local_files_only was asked for";
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    const std::string value = environment(name);
    if (is_true(value)) return fmt::format("{} is set", name);
    if (!value.empty()) break;  // the first that is set decides
  }
  return {};
}

std::chrono::seconds find_timeout(const char* name) {
  const std::string value = environment(name);
  if (value.empty()) return std::chrono::seconds(10);
  int seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error != std::errc() || end != value.data() + value.size() || seconds < 0 || seconds > 1'000'000)
    fail("{}: expected a number of seconds, found {}", name, quoted(value));
  return std::chrono::seconds(seconds == 0 ? 10 : seconds);
}

}  // namespace

HubSettings HubSettings::of(const HubOptions& options) {
  HubSettings settings;
  settings.cache = cache_directory(options);
  settings.endpoint = find_endpoint();
  settings.token = find_token(options);
  settings.offline = find_offline(options);
  settings.revision = options.revision.empty() ? "main" : options.revision;
  settings.metadata_timeout = find_timeout("HF_HUB_ETAG_TIMEOUT");
  settings.download_timeout = find_timeout("HF_HUB_DOWNLOAD_TIMEOUT");
  if (!is_true(environment("HF_HUB_DISABLE_PROGRESS_BARS"))) settings.progress = options.progress;
  return settings;
}

}  // namespace transom
