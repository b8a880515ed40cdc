// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/batches/batches.h"

#include <algorithm>
#include <ctime>
#include <fstream>

#include "apps/serve/api/api_error.h"
#include "apps/serve/openai/identifiers.h"
#include "base/files/files.h"
#include "base/terminal/log.h"

namespace transom::serve {
namespace {

constexpr int64_t kWindowSeconds = 24 * 3600;
constexpr auto kPause = std::chrono::milliseconds(200);  // before a full server is asked again
constexpr int kMostTries = 10;                           // of a line for which there is no memory

bool is_over(const Json& batch) {
  const Json& status = batch["status"];
  return status == "completed" || status == "failed" || status == "expired" || status == "cancelled";
}

// What a server left on disk, which may have been edited.
bool is_batch(const Json& json, const std::string& id) {
  const auto text = [&](const char* name) { return json.contains(name) && json[name].is_string(); };
  return json.is_object() && text("id") && json["id"] == id && text("status") && text("endpoint") &&
         text("input_file_id") && json.contains("created_at") && json["created_at"].is_number_integer() &&
         json.contains("expires_at") && json["expires_at"].is_number_integer() && json.contains("request_counts") &&
         json["request_counts"].is_object();
}

// Whether there was no memory for a request, where others of status 503 come too early.
bool lacks_memory(const HttpResponse& response) {
  const Json body = Json::parse(response.body, nullptr, false);
  const Json error = body.is_object() ? body.value("error", Json()) : Json();
  return error.is_object() && error.value("code", Json()) == kOutOfMemory;
}

}  // namespace

// What the threads that answer put down for the thread of the batches.
struct Batches::Answers {
  struct Answer {
    size_t index;
    std::string request_id;
    HttpResponse response;
  };
  std::mutex mutex;
  std::condition_variable come;
  std::deque<Answer> ready;
};

class Batches::Answerer : public Responder {
 public:
  Answerer(std::shared_ptr<Answers> answers, size_t index, std::string request_id)
      : answers_(std::move(answers)), index_(index), request_id_(std::move(request_id)) {}

  void respond(HttpResponse response) override {
    const std::lock_guard lock(answers_->mutex);
    answers_->ready.push_back({index_, request_id_, std::move(response)});
    answers_->come.notify_all();
  }
  // Lines that ask for a stream are refused before.
  void begin_stream(HttpResponse) override {
    respond(error_response(ApiError(400, "a batch has no streams"), ErrorForm::kOpenAi));
  }
  bool write(std::string) override { return false; }
  void finish() override {}
  bool gone() const override { return false; }
  void on_gone(std::function<void()>) override {}

 private:
  std::shared_ptr<Answers> answers_;
  size_t index_;
  std::string request_id_;
};

struct Batches::Run {
  std::string id, endpoint;
  fs::path output, errors;
  std::set<std::string> done;
  size_t completed = 0, failed = 0;
  std::shared_ptr<Answers> answers = std::make_shared<Answers>();

  void write(const fs::path& path, const std::string& line) const {
    std::ofstream file(path, std::ios::app | std::ios::binary);
    file << line;
    if (!file.flush()) fail("{}: cannot be written", path.string());
  }
};

Batches::Batches(const fs::path& folder, HttpService& service) : folder_(folder), service_(service), files_(folder) {
  for (const fs::path& path : list_directory(folder_)) {
    const std::string name = path.filename().string();
    if (!name.starts_with("batch_") || path.extension() != ".json") continue;
    try {
      Json batch = parse_json(read_file(path, 1 << 20), path.string());
      if (is_batch(batch, path.stem().string())) batches_.emplace(path.stem().string(), std::move(batch));
      else log(LogLevel::kWarning, fmt::format("{}: not a batch of this server; it is left out", path.string()));
    } catch (const Error& error) {
      log(LogLevel::kWarning, fmt::format("{}; it is left out", error.what()));
    }
  }
}

Batches::~Batches() { stop(); }

void Batches::start() {
  thread_ = std::thread([this] { loop(); });
}

void Batches::drain() {
  draining_ = true;
  changed_.notify_all();
}

void Batches::stop() {
  draining_ = stopping_ = true;
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Json Batches::create(const std::string& input_file, const std::string& endpoint, const Json& metadata) {
  if (files_.find(input_file).purpose != "batch")
    throw ApiError(400, "input_file_id: expected a file of purpose batch", "input_file_id");
  const int64_t now = std::time(nullptr);
  Json batch{{"id", new_identifier("batch_")},
             {"object", "batch"},
             {"endpoint", endpoint},
             {"errors", nullptr},
             {"input_file_id", input_file},
             {"completion_window", "24h"},
             {"status", "validating"},
             {"output_file_id", nullptr},
             {"error_file_id", nullptr},
             {"created_at", now},
             {"in_progress_at", nullptr},
             {"expires_at", now + kWindowSeconds},
             {"finalizing_at", nullptr},
             {"completed_at", nullptr},
             {"failed_at", nullptr},
             {"expired_at", nullptr},
             {"cancelling_at", nullptr},
             {"cancelled_at", nullptr},
             {"request_counts", {{"total", 0}, {"completed", 0}, {"failed", 0}}},
             {"metadata", metadata}};
  const std::string id = batch["id"];
  {
    const std::lock_guard lock(mutex_);
    if (batches_.size() >= kMostBatches) throw ApiError(400, "the server holds too many batches");
    write_file(folder_ / (id + ".json"), dump_json(batch));
    batches_.emplace(id, batch);
  }
  changed_.notify_all();
  return batch;
}

Json Batches::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end()) throw ApiError(404, fmt::format("No batch found with id {}.", quoted(id, 60)), "id");
  return found->second;
}

Json Batches::cancel(const std::string& id) {
  const Json batch = find(id);
  if (is_over(batch))
    throw ApiError(409, fmt::format("Cannot cancel a batch with status '{}'.", batch["status"].get<std::string>()));
  const Json result = change(id, [](Json& each) {
    if (is_over(each) || each["status"] == "cancelling") return;
    each["status"] = "cancelling";
    each["cancelling_at"] = std::time(nullptr);
  });
  changed_.notify_all();
  return result;
}

std::vector<Json> Batches::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Json> all;
  for (const auto& [id, batch] : batches_) all.push_back(batch);
  std::ranges::stable_sort(all, [](const Json& a, const Json& b) { return a["created_at"] > b["created_at"]; });
  return all;
}

Json Batches::change(const std::string& id, const std::function<void(Json&)>& edit) {
  const std::lock_guard lock(mutex_);
  Json& batch = batches_.at(id);
  edit(batch);
  write_file(folder_ / (id + ".json"), dump_json(batch));
  return batch;
}

// In memory alone: after each answer is too often for a disk, and the next server counts the lines of the files.
void Batches::count(const Run& run) {
  const std::lock_guard lock(mutex_);
  Json& counts = batches_.at(run.id)["request_counts"];
  counts["completed"] = run.completed;
  counts["failed"] = run.failed;
}

// The oldest that is not over; empty without one. The lock is held.
std::string Batches::next_batch() const {
  const Json* oldest = nullptr;
  for (const auto& [id, batch] : batches_)
    if (!is_over(batch) && (!oldest || batch["created_at"] < (*oldest)["created_at"])) oldest = &batch;
  return oldest ? (*oldest)["id"].get<std::string>() : std::string();
}

void Batches::loop() {
  while (!draining_) {
    std::string id;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::seconds(1), [&] { return draining_ || !next_batch().empty(); });
      id = next_batch();
    }
    if (draining_ || id.empty()) continue;
    try {
      run(id);
    } catch (const std::exception& error) {  // a full disk, a file that was removed
      log(LogLevel::kWarning, fmt::format("batch {}: {}", id, error.what()));
      const std::string what = error.what();
      try {
        change(id, [&](Json& batch) {
          batch["status"] = "failed";
          batch["failed_at"] = std::time(nullptr);
          batch["errors"] = {
              {"object", "list"},
              {"data", {{{"code", "server_error"}, {"message", what}, {"param", nullptr}, {"line", nullptr}}}}};
        });
      } catch (const std::exception& again) {  // it is failed in memory
        log(LogLevel::kWarning, fmt::format("batch {}: {}", id, again.what()));
      }
    }
  }
}

std::optional<BatchFile> Batches::validate(const std::string& id) {
  const Json batch = find(id);
  BatchFile file = read_batch_file(files_.content(batch["input_file_id"]), batch["endpoint"]);
  if (!file.errors.empty()) {
    change(id, [&](Json& each) {
      each["status"] = "failed";
      each["failed_at"] = std::time(nullptr);
      each["errors"] = {{"object", "list"}, {"data", file.errors}};
    });
    return std::nullopt;
  }
  change(id, [&](Json& each) {
    if (each["status"] == "validating") each["status"] = "in_progress";
    if (each["in_progress_at"].is_null()) each["in_progress_at"] = std::time(nullptr);
    each["request_counts"]["total"] = file.lines.size();
  });
  return file;
}

void Batches::run(const std::string& id) {
  const std::optional<BatchFile> file = validate(id);
  if (!file) return;
  Run run{.id = id,
          .endpoint = find(id)["endpoint"],
          .output = folder_ / (id + ".output"),
          .errors = folder_ / (id + ".errors")};
  for (const fs::path& path : {run.output, run.errors}) {
    if (!file_exists(path)) continue;
    std::string content = read_file(path);
    const size_t before = content.size();
    const std::set<std::string> ids = written_lines(content);
    if (content.size() != before) write_file(path, content);
    (path == run.output ? run.completed : run.failed) += ids.size();
    run.done.insert(ids.begin(), ids.end());
  }
  count(run);
  if (ask(run, file->lines)) finish(run, file->lines);
}

void Batches::send(Run& run, const BatchLine& line, size_t index) {
  auto request = std::make_shared<HttpRequest>();
  request->method = "POST";
  request->target = request->path = run.endpoint;
  request->headers = {{"content-type", "application/json"}};
  request->body = line.body;
  request->id = new_identifier("req_");
  service_.handle(request, std::make_shared<Answerer>(run.answers, index, request->id));
}

bool Batches::ask(Run& run, const std::vector<BatchLine>& lines) {
  const int64_t expires = find(run.id)["expires_at"];
  std::deque<size_t> open;
  for (size_t i = 0; i < lines.size(); ++i)
    if (!run.done.contains(lines[i].custom_id)) open.push_back(i);
  size_t in_work = 0;
  std::map<size_t, int> tries;  // of lines that found no memory
  auto not_before = Clock::now();
  while (true) {
    const bool ends = draining_ || is_cancelled(run.id) || std::time(nullptr) >= expires;
    if (stopping_) return false;
    if (in_work == 0 && (open.empty() || ends)) return !draining_ || open.empty();
    while (!ends && !open.empty() && in_work < kAtOnce && Clock::now() >= not_before) {
      const size_t next = open.front();
      open.pop_front();
      ++in_work;
      send(run, lines[next], next);
    }
    std::deque<Answers::Answer> ready;
    {
      std::unique_lock lock(run.answers->mutex);
      run.answers->come.wait_for(lock, kPause, [&] { return !run.answers->ready.empty(); });
      ready.swap(run.answers->ready);
    }
    if (stopping_) return false;  // a server that ends answers with 500
    for (const Answers::Answer& answer : ready) {
      --in_work;
      const int status = answer.response.status;
      const bool gives_up = status == 503 && lacks_memory(answer.response) && ++tries[answer.index] >= kMostTries;
      if (!gives_up && (status == 429 || status == 503)) {  // the server is full, or loads the model
        open.push_back(answer.index);
        not_before = Clock::now() + kPause;
        continue;
      }
      const std::string& custom_id = lines[answer.index].custom_id;
      const bool good = status >= 200 && status < 300;
      run.write(good ? run.output : run.errors, answered_line(custom_id, answer.request_id, answer.response));
      run.done.insert(custom_id);
      ++(good ? run.completed : run.failed);
    }
    if (!ready.empty()) count(run);
  }
}

void Batches::finish(Run& run, const std::vector<BatchLine>& lines) {
  const bool whole = run.done.size() == lines.size(), cancelled = is_cancelled(run.id);
  if (!whole && !cancelled)
    for (const BatchLine& line : lines)
      if (!run.done.contains(line.custom_id)) {
        run.write(run.errors,
                  unanswered_line(line.custom_id, "batch_expired",
                                  "This request could not be executed before the completion window expired."));
        ++run.failed;
      }
  count(run);
  change(run.id, [&](Json& batch) {
    if (!cancelled) batch["status"] = "finalizing";
    batch["finalizing_at"] = std::time(nullptr);
  });
  const auto kept = [&](const fs::path& path, const char* name) {
    return file_exists(path) ? Json(files_.take(path, run.id + name, "batch_output").id) : Json();
  };
  const Json output = kept(run.output, "_output.jsonl"), errors = kept(run.errors, "_error.jsonl");
  change(run.id, [&](Json& batch) {
    const std::string status = cancelled ? "cancelled" : whole ? "completed" : "expired";
    batch["status"] = status;
    batch[status + "_at"] = std::time(nullptr);
    batch["output_file_id"] = output;
    batch["error_file_id"] = errors;
  });
}

}  // namespace transom::serve
