// SPDX-License-Identifier: Apache-2.0
#include "files/hub/curl_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace transom {
namespace {

constexpr const char* kName = "libcurl.so.4";

CurlLibrary open_library() {
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);  // never closed: connections outlive every caller
  if (!library) fail(ErrorKind::kInput, "downloading needs {} (package libcurl4), which cannot be opened", kName);
  CurlLibrary made{};
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) fail(ErrorKind::kInput, "{} has no {}: version 7.85 or later is needed", kName, name);
  };
  take(made.global_init, "curl_global_init");
  take(made.easy_init, "curl_easy_init");
  take(made.easy_reset, "curl_easy_reset");
  take(made.easy_setopt, "curl_easy_setopt");
  take(made.easy_perform, "curl_easy_perform");
  take(made.easy_getinfo, "curl_easy_getinfo");
  take(made.easy_strerror, "curl_easy_strerror");
  take(made.easy_cleanup, "curl_easy_cleanup");
  take(made.slist_append, "curl_slist_append");
  take(made.slist_free_all, "curl_slist_free_all");
  take(made.url, "curl_url");
  take(made.url_set, "curl_url_set");
  take(made.url_get, "curl_url_get");
  take(made.url_cleanup, "curl_url_cleanup");
  take(made.free, "curl_free");
  if (made.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) fail(ErrorKind::kInternal, "{} cannot be started", kName);
  return made;
}

}  // namespace

const CurlLibrary& curl() {
  static const CurlLibrary library = open_library();
  return library;
}

}  // namespace transom
