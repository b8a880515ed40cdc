// SPDX-License-Identifier: Apache-2.0
#include "files/hub/remote.h"

#include "base/error.h"
#include "base/json/json.h"
#include "files/hub/names.h"

namespace transom {
namespace {

constexpr size_t kLargestList = size_t{32} << 20;

// The commit and the names of the files in the answer of /api/models; nothing where it is no such answer.
std::optional<RemoteModel> model_of_json(const std::string& text, const std::string& where) {
  Json json;
  try {
    json = parse_json(text, where);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!json.is_object() || !json.contains("sha") || !json["sha"].is_string()) return std::nullopt;
  RemoteModel model;
  model.commit = json["sha"].get<std::string>();
  if (!is_commit(model.commit)) fail("{}: expected a commit as \"sha\", found {}", where, quoted(model.commit));
  if (!json.contains("siblings") || !json["siblings"].is_array()) return model;
  model.files.emplace();
  for (const Json& file : json["siblings"])
    if (file.is_object() && file.contains("rfilename") && file["rfilename"].is_string())
      model.files->insert(file["rfilename"].get<std::string>());
  return model;
}

// The file itself is not there, while the model and the revision are.
bool says_no_such_file(const HttpResponse& response) {
  const std::string* code = response.header("x-error-code");
  if (code) return *code == "EntryNotFound";
  return response.status == 404 && response.header("x-repo-commit");
}

}  // namespace

Remote::Remote(std::string id, const HubSettings& settings)
    : id_(std::move(id)), settings_(settings), http_(settings) {}

std::string Remote::resolve_url(const std::string& revision, const std::string& name) const {
  return fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, id_, url_encoded(revision, false),
                     url_encoded(name, true));
}

void Remote::refuse(const HttpResponse& response, const std::string& revision) const {
  using Kind = HubError::Kind;
  const std::string* const code = response.header("x-error-code");
  const auto is = [&](const char* name) { return code && *code == name; };
  if (response.transient()) {
    const auto seconds = response.number("retry-after");
    throw HubError(
        Kind::kUnreachable,
        fmt::format("{}: {} gives no answer ({}): check the connection, HF_ENDPOINT and the proxy, or give a "
                    "directory",
                    id_, settings_.endpoint, response.summary()),
        seconds ? static_cast<int64_t>(std::min<uint64_t>(*seconds, 3600)) : 0);
  }
  if (is("RevisionNotFound"))
    throw HubError(Kind::kNoRevision,
                   fmt::format("{}: has no revision {}: expected a branch, a tag or a commit that {}/{} "
                               "shows",
                               id_, quoted(revision), settings_.endpoint, id_));
  if (is("GatedRepo") || (response.status == 403 && !code))
    throw HubError(
        Kind::kRefused,
        fmt::format("{}: access is restricted (HTTP {}): accept its conditions at {}/{}, and set HF_TOKEN to a "
                    "token of that account{}",
                    id_, response.status, settings_.endpoint, id_,
                    settings_.token.empty() ? "" : "; the token that was sent does not suffice"));
  if (is("RepoNotFound") || response.status == 401 || response.status == 404)
    throw HubError(
        Kind::kRefused,
        fmt::format("{}: is no directory here, and {} knows no such model or does not show it (HTTP {}): check "
                    "the name; for a private model set HF_TOKEN{}",
                    id_, settings_.endpoint, response.status,
                    settings_.token.empty() ? "" : "; the token that was sent does not suffice"));
  const std::string* const message = response.header("x-error-message");
  throw HubError(Kind::kRefused, fmt::format("{}: {} refuses the request: {}{}", id_, settings_.endpoint,
                                             response.summary(), message ? ": " + quoted(*message, 200) : ""));
}

std::string Remote::commit_in(const HttpResponse& response) const {
  const std::string* commit = response.header("x-repo-commit");
  if (!commit || !is_commit(*commit))
    fail(
        "{}: {} does not answer as a Hub does: expected a commit in the header X-Repo-Commit, found {}; check "
        "HF_ENDPOINT "
        "and the proxy",
        id_, settings_.endpoint, commit ? quoted(*commit) : "none");
  return *commit;
}

RemoteModel Remote::model(const std::string& revision) {
  const std::string url =
      fmt::format("{}/api/models/{}/revision/{}", settings_.endpoint, id_, url_encoded(revision, false));
  const HttpResponse response = http_.get_text(url, kLargestList);
  if (response.transient()) refuse(response, revision);
  if (response.status == 200) {
    if (auto model = model_of_json(response.body, url)) return *std::move(model);
  } else if (response.header("x-error-code") || response.status == 401 || response.status == 403) {
    refuse(response, revision);
  }
  // A mirror that has the files alone: what it says of one of them tells the commit.
  const HttpResponse file = http_.head(resolve_url(revision, "config.json"));
  if (!says_no_such_file(file) && (file.transient() || file.status >= 400)) refuse(file, revision);
  return {commit_in(file), std::nullopt};
}

std::optional<RemoteFile> Remote::file(const std::string& commit, const std::string& name) {
  RemoteFile file{.url = resolve_url(commit, name)};
  const HttpResponse response = http_.head(file.url);
  if (says_no_such_file(response)) return std::nullopt;
  if (response.transient() || response.status >= 400) {
    if (response.status == 404 && !response.header("x-error-code")) return std::nullopt;
    refuse(response, commit);
  }
  const std::string where = fmt::format("{}: {}", id_, name);
  if (const std::string found = commit_in(response); found != commit)
    fail("{}: asked for commit {}, got {}; check HF_ENDPOINT", where, commit, found);
  const std::string* const linked = response.header("x-linked-etag");
  const std::string* const etag = linked ? linked : response.header("etag");
  if (!etag)
    fail("{}: expected an ETag from {}, found none; check HF_ENDPOINT and the proxy", where, settings_.endpoint);
  file.linked = linked != nullptr;
  file.etag = etag_of_header(*etag, where);
  file.size = response.number("x-linked-size");
  if (!file.size && !linked) file.size = response.number("content-length");
  return file;
}

}  // namespace transom
