// SPDX-License-Identifier: Apache-2.0
// Batches: files of requests that the server answers beside all others, some at a time. What is answered is on disk at
// once, so that a server that ends, or is killed, goes on with the rest when it is started again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "apps/serve/batches/batch_lines.h"
#include "apps/serve/batches/file_store.h"

namespace transom::serve {

// Any thread.
class Batches {
 public:
  static constexpr size_t kAtOnce = 16;  // requests of batches in work
  static constexpr size_t kMostBatches = 10'000;

  // `service` answers the requests; keys are not asked for there. Nothing runs before start().
  Batches(const fs::path& folder, HttpService& service);
  ~Batches();  // stops
  void start();
  // No further requests are sent. Those in work are answered, and written.
  void drain();
  // Ends the thread. What is in work is not waited for, and asked again after the next start.
  void stop();

  FileStore& files() { return files_; }
  // The object `batch` of OpenAI's interface. Throw ApiError 400 and 404.
  Json create(const std::string& input_file, const std::string& endpoint, const Json& metadata);
  Json find(const std::string& id) const;
  Json cancel(const std::string& id);
  std::vector<Json> list() const;  // the newest first

 private:
  struct Answers;
  class Answerer;
  struct Run;
  void loop();
  std::string next_batch() const;
  void run(const std::string& id);
  std::optional<BatchFile> validate(const std::string& id);
  // Sends the lines, and writes what comes back; false where the server ends before all is done.
  bool ask(Run& run, const std::vector<BatchLine>& lines);
  void finish(Run& run, const std::vector<BatchLine>& lines);
  void send(Run& run, const BatchLine& line, size_t index);
  Json change(const std::string& id, const std::function<void(Json&)>& edit);
  void count(const Run& run);
  bool is_cancelled(const std::string& id) const { return find(id)["status"] == "cancelling"; }

  fs::path folder_;
  HttpService& service_;
  FileStore files_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Json> batches_;
  std::atomic<bool> draining_{false}, stopping_{false};
  std::thread thread_;
};

}  // namespace transom::serve
