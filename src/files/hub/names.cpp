// SPDX-License-Identifier: Apache-2.0
#include "files/hub/names.h"

#include <algorithm>

#include "base/error.h"
#include "files/hub/digest.h"

namespace transom {
namespace {

constexpr size_t kLongestPart = 96, kLongestFileName = 200;

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool is_id_part(std::string_view part) {
  return !part.empty() && part.size() <= kLongestPart && is_word(part.front()) && is_word(part.back()) &&
         std::all_of(part.begin(), part.end(), [](char c) { return is_word(c) || c == '-' || c == '.'; });
}

// A path of plain names: no empty one, no . and .., nothing unprintable, no backslash.
bool is_plain_path(std::string_view path) {
  while (true) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == ".." || part.size() > kLongestFileName) return false;
    for (const char c : part)
      if (static_cast<unsigned char>(c) < ' ' || c == 0x7F || c == '\\') return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

bool is_model_id(std::string_view text) {
  if (text.find("--") != text.npos || text.find("..") != text.npos || text.ends_with(".git")) return false;
  const size_t slash = text.find('/');
  if (slash == text.npos) return is_id_part(text);
  return is_id_part(text.substr(0, slash)) && is_id_part(text.substr(slash + 1));
}

bool looks_like_path(std::string_view text) {
  return text.starts_with('/') || text.starts_with('.') || text.starts_with('~') || text.ends_with('/') ||
         text.find('\\') != text.npos || std::count(text.begin(), text.end(), '/') > 1;
}

bool is_commit(std::string_view text) { return is_digest(text, 40) || is_digest(text, 64); }

void check_revision(const std::string& revision, std::string_view where) {
  if (!is_plain_path(revision))
    fail("{}: revision: expected a branch, a tag or a commit, found {}", where, quoted(revision));
}

void check_file_name(const std::string& name, std::string_view where) {
  if (!is_plain_path(name)) fail("{}: {} is no name of a file inside a model", where, quoted(name));
}

std::string etag_of_header(std::string_view header, std::string_view where) {
  std::string_view etag = header;
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  const bool plain = !etag.empty() && etag.size() <= kLongestFileName && etag.front() != '.' &&
                     std::all_of(etag.begin(), etag.end(), [](char c) {
                       return is_word(c) || std::string_view("-.+=:").find(c) != std::string_view::npos;
                     });
  if (!plain)
    fail("{}: the server names it by the ETag {}, which cannot name a file of the cache", where, quoted(header));
  return std::string(etag);
}

std::string cache_folder_of(std::string_view id) {
  std::string folder = "models--" + std::string(id);
  if (const size_t slash = folder.find('/'); slash != folder.npos) folder.replace(slash, 1, "--");
  return folder;
}

std::string url_encoded(std::string_view text, bool keep_slashes) {
  std::string result;
  for (const char c : text) {
    if (is_word(c) || c == '-' || c == '.' || c == '~' || (c == '/' && keep_slashes)) result += c;
    else result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

}  // namespace transom
