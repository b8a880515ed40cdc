// SPDX-License-Identifier: Apache-2.0
// What the Hub says about a model and its files, and its refusals in words.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "files/hub/http.h"
#include "files/hub/settings.h"
#include "transom/error.h"

namespace transom {

class HubError : public Error {
 public:
  enum class Kind {
    kUnreachable,  // no answer, or a server in trouble: may be another try helps
    kRefused,      // no such model, or no access
    kNoRevision,
  };
  HubError(Kind hub_kind, const std::string& text, int64_t retry_after = 0)
      : Error(ErrorKind::kInput, text), kind_(hub_kind), retry_after_(retry_after) {}
  Kind hub_kind() const { return kind_; }
  int64_t retry_after() const { return retry_after_; }  // seconds that the server asks for; 0: none

 private:
  Kind kind_;
  int64_t retry_after_;
};

struct RemoteModel {
  std::string commit;
  std::optional<std::set<std::string>> files;  // hostile; nothing where the server has no lists
};

struct RemoteFile {
  std::string url;               // of this commit
  std::string etag;              // checked to be a plain name
  bool linked = false;           // the etag came as X-Linked-Etag, not as that of the answer itself
  std::optional<uint64_t> size;  // nothing where the server does not say
};

// Throws HubError, and Error for answers that cannot be meant.
class Remote {
 public:
  Remote(std::string id, const HubSettings& settings);
  RemoteModel model(const std::string& revision);
  // Nothing where the commit has no such file.
  std::optional<RemoteFile> file(const std::string& commit, const std::string& name);
  HttpClient& http() { return http_; }

 private:
  std::string resolve_url(const std::string& revision, const std::string& name) const;
  [[noreturn]] void refuse(const HttpResponse& response, const std::string& revision) const;
  // The commit in the answer to a request for a file.
  std::string commit_in(const HttpResponse& response) const;
  std::string id_;
  const HubSettings& settings_;
  HttpClient http_;
};

}  // namespace transom
