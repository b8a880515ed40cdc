// SPDX-License-Identifier: Apache-2.0
// A Hub on this machine with one repository, and the storage of its large files on another port; both misbehave as a
// test asks for.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/files/files.h"
#include "files/hub/digest.h"
#include "files/hub/settings.h"
#include "support/temporary_folder.h"

namespace transom::test {

// What is wrong with one answer to a GET of a file's contents.
struct Fault {
  enum Kind {
    kBreakOff,     // the connection ends after `at` bytes of the file
    kStall,        // nothing more comes after them
    kCorrupt,      // the byte there is another one
    kIgnoreRange,  // the whole file in answer to a request for a part
    kOtherRange,   // the part from `at` on, whatever was asked for
    kLonger,       // more bytes than announced
    kStatus,       // `at` is the status
  } kind;
  size_t at = 0;
};

struct SeenRequest {
  std::string method, path, range, authorization;
  bool storage = false;
};

class HubServer {
 public:
  struct File {
    std::string contents;
    bool large = false;  // kept in the storage, named by SHA-256
  };
  static constexpr const char* kId = "owner/tiny";

  std::map<std::string, File> files;
  std::map<std::string, std::string> commits = {{"main", std::string(40, 'a')}};  // of branches and tags
  std::map<std::string, std::deque<Fault>> faults;                                // by file, for one GET each
  bool has_lists = true;
  std::string required_token;
  // Tried first; true if it has answered.
  std::function<bool(const httplib::Request&, httplib::Response&)> intercept;

  HubServer() {
    for (const char* name : {"no_proxy", "NO_PROXY"}) ::setenv(name, "127.0.0.1", 1);
    prepare(hub_, false);
    prepare(storage_, true);
    hub_port_ = hub_.bind_to_any_port("127.0.0.1");
    storage_port_ = storage_.bind_to_any_port("127.0.0.1");
    threads_.emplace_back([this] { hub_.listen_after_bind(); });
    threads_.emplace_back([this] { storage_.listen_after_bind(); });
    while (!hub_.is_running() || !storage_.is_running()) std::this_thread::yield();
  }
  ~HubServer() {
    stopping_ = true;
    hub_.stop();
    storage_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(hub_port_); }
  std::string commit() const { return commits.at("main"); }

  HubSettings settings(const fs::path& cache) const {
    HubSettings settings;
    settings.cache = cache;
    settings.endpoint = endpoint();
    settings.revision = "main";
    settings.first_wait = std::chrono::milliseconds(1);
    settings.download_timeout = std::chrono::seconds(1);
    return settings;
  }

  std::vector<SeenRequest> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    seen_.clear();
  }
  // How many GET requests for the contents of a file came.
  int64_t downloads_of(const std::string& file) const {
    const std::vector<SeenRequest> all = seen();
    return std::count_if(all.begin(), all.end(), [&](const SeenRequest& request) {
      return request.method == "GET" && request.path.ends_with("/" + file) && is_final(request);
    });
  }
  std::string etag_of(const std::string& file) const { return etag_of_contents(files.at(file)); }
  static std::string etag_of_contents(const File& file) {
    const TemporaryFolder folder;
    std::ofstream(folder.path() / "x") << file.contents;
    return file.large ? sha256_of(folder.path() / "x") : git_blob_sha1_of(folder.path() / "x");
  }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  bool is_final(const SeenRequest& request) const {
    const auto file = files.find(request.path.substr(request.path.rfind('/') + 1));
    return file == files.end() || file->second.large == request.storage;
  }

  void prepare(httplib::Server& server, bool storage) {
    server.new_task_queue = [] { return new httplib::ThreadPool(8); };
    server.set_pre_routing_handler([this, storage](const Request& request, Response& response) {
      {
        const std::lock_guard lock(mutex_);
        seen_.push_back({request.method, request.path, request.get_header_value("Range"),
                         request.get_header_value("Authorization"), storage});
      }
      return intercept && intercept(request, response) ? httplib::Server::HandlerResponse::Handled
                                                       : httplib::Server::HandlerResponse::Unhandled;
    });
    if (storage) {
      server.Get(R"(/store/(.+))",
                 [this](const Request& request, Response& response) { send(request.matches[1], request, response); });
      return;
    }
    server.Get(R"(/api/models/owner/tiny/revision/(.+))", [this](const Request& request, Response& response) {
      if (!has_lists) {
        response.status = 404;
        return;
      }
      const std::string commit = commit_of(request.matches[1], response);
      if (commit.empty()) return;
      std::string names;
      for (const auto& [name, file] : files) names += (names.empty() ? "" : ",") + ("{\"rfilename\":\"" + name + "\"}");
      response.set_content("{\"sha\":\"" + commit + "\",\"siblings\":[" + names + "]}", "application/json");
    });
    server.Get(R"(/owner/tiny/resolve/([^/]+)/(.+))", [this](const Request& request, Response& response) {
      if (!required_token.empty() && request.get_header_value("Authorization") != "Bearer " + required_token) {
        response.status = 401;
        response.set_header("X-Error-Code", "GatedRepo");
        return;
      }
      const std::string commit = commit_of(request.matches[1], response), name = request.matches[2];
      if (commit.empty()) return;
      response.set_header("X-Repo-Commit", commit);
      const auto file = files.find(name);
      if (file == files.end()) {
        response.status = 404;
        response.set_header("X-Error-Code", "EntryNotFound");
        return;
      }
      if (file->second.large) {
        response.set_header("X-Linked-Etag", "\"" + etag_of(name) + "\"");
        response.set_header("X-Linked-Size", std::to_string(file->second.contents.size()));
        response.set_redirect("http://127.0.0.1:" + std::to_string(storage_port_) + "/store/" + name);
        return;
      }
      response.set_header("ETag", "\"" + etag_of(name) + "\"");
      send(name, request, response);
    });
    server.set_error_handler([](const Request& request, Response& response) {
      if (request.path.starts_with("/api/") && response.status == 404 && !response.has_header("X-Error-Code") &&
          request.path.find("owner/tiny") == std::string::npos) {
        response.set_header("X-Error-Code", "RepoNotFound");
        response.status = 401;
      }
    });
  }

  std::string commit_of(const std::string& revision, Response& response) const {
    for (const auto& [name, commit] : commits)
      if (revision == name || revision == commit) return commit;
    response.status = 404;
    response.set_header("X-Error-Code", "RevisionNotFound");
    return {};
  }

  void send(const std::string& name, const Request& request, Response& response) {
    const std::string contents = files.at(name).contents;
    std::optional<Fault> fault;
    if (request.method == "GET") {
      const std::lock_guard lock(mutex_);
      std::deque<Fault>& waiting = faults[name];
      if (!waiting.empty()) {
        fault = waiting.front();
        waiting.pop_front();
      }
    }
    std::string bytes = contents;
    auto& ranges = const_cast<Request&>(request).ranges;
    const size_t never = std::string::npos;
    size_t end = never;
    bool stalls = false;
    if (fault) switch (fault->kind) {
        case Fault::kBreakOff:
          end = fault->at;
          break;
        case Fault::kStall:
          end = fault->at, stalls = true;
          break;
        case Fault::kCorrupt:
          bytes[fault->at] ^= 1;
          break;
        case Fault::kIgnoreRange:
          ranges.clear();
          break;
        case Fault::kOtherRange:
          ranges = {{static_cast<ssize_t>(fault->at), -1}};
          break;
        case Fault::kLonger:
          bytes += "more";
          break;
        case Fault::kStatus:
          response.status = static_cast<int>(fault->at);
          return;
      }
    if (bytes.empty()) {  // a provider of nothing would announce no length
      response.set_content(bytes, "application/octet-stream");
      return;
    }
    response.set_content_provider(
        bytes.size(), "application/octet-stream",
        [this, bytes, end, stalls](size_t offset, size_t length, httplib::DataSink& sink) {
          if (offset >= end) {
            for (int i = 0; stalls && i < 1000 && !stopping_; ++i)
              std::this_thread::sleep_for(std::chrono::milliseconds(10));
            return false;
          }
          const size_t count = std::min({length, size_t{4096}, end == std::string::npos ? length : end - offset});
          return sink.write(bytes.data() + offset, count);
        });
  }

  httplib::Server hub_, storage_;
  int hub_port_ = 0, storage_port_ = 0;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::vector<SeenRequest> seen_;
};

// `size` bytes that look like none before them.
inline std::string random_bytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 12345;
  for (char& c : bytes) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

// The repository that most tests use.
inline void fill(HubServer& server) {
  server.files = {{"config.json", {R"({"model_type": "bert"})"}},
                  {"vocab.txt", {"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n"}},
                  {"model.safetensors", {random_bytes(100'000), true}},
                  {"tf_model.h5", {"not for us", true}},
                  {"README.md", {"nor this"}}};
}

inline void expect_same_files(const HubServer& server, const fs::path& snapshot,
                              const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    ASSERT_TRUE(fs::exists(snapshot / name)) << name;
    EXPECT_TRUE(read_file(snapshot / name) == server.files.at(name).contents) << name;
  }
}

// All files below a folder, as paths from it.
inline std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory())
      names.push_back(fs::relative(entry.path().parent_path(), folder) / entry.path().filename());
  for (std::string& name : names)
    if (name.starts_with("./")) name = name.substr(2);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace transom::test
