// SPDX-License-Identifier: Apache-2.0
// The names that come from outside (ids, revisions, files, etags) become paths of the cache and parts of addresses.
// Nothing that leads out of the cache passes here.
#pragma once

#include <string>
#include <string_view>

namespace transom {

// name or owner/name: letters, digits, - _ . as huggingface_hub's validate_repo_id takes them.
bool is_model_id(std::string_view text);
// Whether text was meant as a path rather than an id: /a, ./a, ~/a, a/b/c.
bool looks_like_path(std::string_view text);
bool is_commit(std::string_view text);  // 40 hexadecimal digits (64 in repositories of SHA-256)

// Throw where the text is no name of that kind; `where` begins the error.
void check_revision(const std::string& revision, std::string_view where);
void check_file_name(const std::string& name, std::string_view where);  // relative, without . and ..
// An ETag header without its quotes and mark of weakness, checked to be a plain file name.
std::string etag_of_header(std::string_view header, std::string_view where);

// "models--owner--name"
std::string cache_folder_of(std::string_view id);
// Percent-encoded; slashes stay if `keep_slashes`.
std::string url_encoded(std::string_view text, bool keep_slashes);

}  // namespace transom
