// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/web/dashboard_server.h"

#include <fmt/format.h>

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <random>
#include <thread>

#include "apps/dashboard/web/messages.h"
#include "apps/dashboard/web/page.h"
#include "apps/dashboard/web/saved_runs.h"
#include "apps/serve/http/own_host.h"
#include "apps/serve/http/server.h"
#include "apps/serve/server/key_check.h"
#include "base/error.h"
#include "base/json/json.h"

namespace transom::dashboard {
namespace {

using serve::HttpRequest;
using serve::HttpResponse;
using serve::Responder;

constexpr auto kInterval = std::chrono::milliseconds(400);
constexpr size_t kMostPages = 32, kMostTasks = 64;

std::string new_key() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

HttpResponse answer(int status, std::string body, std::string type) {
  HttpResponse response{.status = status, .body = std::move(body), .content_type = std::move(type)};
  response.headers = {{"Cache-Control", "no-store"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}};
  return response;
}

HttpResponse json(std::string body) { return answer(200, std::move(body), "application/json"); }

HttpResponse error(int status, const std::string& reason) {
  return answer(status, Json{{"error", reason}}.dump(-1, ' ', false, Json::error_handler_t::replace),
                "application/json");
}

}  // namespace

class DashboardServer::Implementation : public serve::HttpService {
 public:
  Implementation(DashboardOptions options, std::shared_ptr<const RunMonitor> monitor,
                 std::shared_ptr<RunControl> control)
      : options_(std::move(options)),
        monitor_(std::move(monitor)),
        control_(std::move(control)),
        loopback_(serve::is_loopback(options_.host)),
        key_(loopback_ ? "" : new_key()),
        keys_(loopback_ ? std::vector<std::string>() : std::vector{key_}),
        http_({.host = options_.host, .port = options_.port, .max_connections = 256}, *this) {
    http_.start();
    thread_ = std::thread([this] { publish(); });
  }

  ~Implementation() override {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    wake_.notify_all();
    thread_.join();
    // What was sent last is on its way.
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
    while (http_.statistics().active > 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    http_.stop();
  }

  uint16_t port() const { return http_.port(); }
  std::string address() const {
    const bool v6 = options_.host.find(':') != std::string::npos && options_.host[0] != '[';
    return fmt::format("http://{}{}{}:{}/{}", v6 ? "[" : "", options_.host, v6 ? "]" : "", port(),
                       key_.empty() ? "" : "?key=" + key_);
  }

  std::optional<HttpResponse> admit(const HttpRequest& head, uint64_t& body_limit) override {
    body_limit = 1024;
    if (loopback_ && !serve::names_own_host(head, options_.host))
      return error(403, "the Host header names another host than this server");
    if (keys_.required() && head.path != "/dashboard.js" && head.path != "/dashboard.css" &&
        !keys_.find(serve::query_parameter(head.query, "key").value_or("")) &&
        !keys_.find_in_header(head.header("authorization")))
      return error(401, "the key is missing: open the address that transom train printed");
    if (head.method == "POST") {
      // A page of another site cannot set this header without asking first, which is refused (it would be OPTIONS).
      if (!head.header("x-transom-dashboard"))
        return error(403, "send the header X-Transom-Dashboard: 1 with what changes the run");
    } else if (head.method != "GET") {
      return error(405, "expected GET or POST");
    }
    return std::nullopt;
  }

  HttpResponse refusal(int status, const std::string& reason) override { return error(status, reason); }

  void handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder) override {
    if (request->method == "POST") return responder->respond(post(request->path));
    const std::string& path = request->path;
    if (path == "/")
      return responder->respond(answer(200, page_html(view_message(monitor_->view())), "text/html; charset=utf-8"));
    if (path == "/dashboard.js")
      return responder->respond(answer(200, std::string(kPageScript), "text/javascript; charset=utf-8"));
    if (path == "/dashboard.css")
      return responder->respond(answer(200, std::string(kPageStyle), "text/css; charset=utf-8"));
    if (path == "/state") return responder->respond(json(view_message(monitor_->view())));
    if (path == "/events") return subscribe(std::move(responder));
    if (path == "/runs" || path.starts_with("/runs/"))
      return post_task([this, path, responder = std::move(responder)] {
        HttpResponse response;
        try {
          response = saved(path);
        } catch (const std::exception& failure) {  // of the file system, or of a file too large for the memory
          response = error(500, failure.what());
        }
        responder->respond(std::move(response));
      });
    responder->respond(error(404, "there is no such path"));
  }

 private:
  HttpResponse post(const std::string& path) {
    if (path == "/pause") control_->pause = true;
    else if (path == "/resume") control_->pause = false;
    else if (path == "/save") control_->save = true;
    else if (path == "/stop") control_->stop = true;
    else if (path == "/profile") control_->profile = true;
    else return error(404, "there is no such path");
    return json("{}");
  }

  // Reads files: on the publisher's thread, not on that of the connections.
  HttpResponse saved(const std::string& path) {
    const std::vector<SavedRun> runs = find_saved_runs(options_.runs, options_.output_dir);
    if (path == "/runs") return json(runs_message(runs));
    const std::string digits = path.substr(6);
    if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != digits.npos ||
        static_cast<size_t>(std::stoi(digits)) >= runs.size())
      return error(404, "there is no such run");
    try {
      return json(series_message(read_saved_run(runs[static_cast<size_t>(std::stoi(digits))])));
    } catch (const Error& failed) {
      return error(404, failed.what());
    }
  }

  void subscribe(std::shared_ptr<Responder> responder) {
    const std::lock_guard lock(mutex_);
    if (end_ || pages_.size() >= kMostPages) return responder->respond(error(503, "too many pages are open"));
    HttpResponse head = answer(200, "retry: 2000\n\n", "text/event-stream");
    responder->begin_stream(std::move(head));
    pages_.push_back({std::move(responder), 0});
    wake_.notify_all();
  }

  void post_task(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    if (tasks_.size() < kMostTasks) tasks_.push_back(std::move(task));
    wake_.notify_all();
  }

  // What is new since the page's last message goes to it; the status goes in any case, since time passes.
  void publish() {
    std::unique_lock lock(mutex_);
    while (true) {
      std::list<std::function<void()>> tasks = std::move(tasks_);
      tasks_.clear();
      std::list<Page> pages = std::move(pages_);
      pages_.clear();
      const bool last = end_;
      lock.unlock();
      for (const auto& task : tasks) task();
      pages.remove_if([&](Page& page) { return !send(page, last); });
      lock.lock();
      pages_.splice(pages_.begin(), pages);
      if (last) return;
      if (tasks_.empty() && !end_)
        wake_.wait_for(lock, kInterval, [this] {
          return end_ || !tasks_.empty() ||
                 std::any_of(pages_.begin(), pages_.end(), [](const Page& page) { return page.number == 0; });
        });
    }
  }

  struct Page {
    std::shared_ptr<Responder> responder;
    uint64_t number;  // of the newest point that it has; 0: it has nothing yet
  };

  bool send(Page& page, bool last) {
    const RunView view = monitor_->view(page.number);
    const char* event = page.number == 0 ? "state" : "update";
    page.number = std::max<uint64_t>(view.number, 1);
    bool there = page.responder->write(fmt::format("event: {}\ndata: {}\n\n", event, view_message(view)));
    if (last) {
      there = there && page.responder->write("event: end\ndata: {}\n\n");
      page.responder->finish();
    }
    return there && !last;
  }

  DashboardOptions options_;
  std::shared_ptr<const RunMonitor> monitor_;
  std::shared_ptr<RunControl> control_;
  bool loopback_;
  std::string key_;
  serve::KeyCheck keys_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool end_ = false;
  std::list<Page> pages_;
  std::list<std::function<void()>> tasks_;
  std::thread thread_;
  serve::HttpServer http_;
};

DashboardServer::DashboardServer(DashboardOptions options, std::shared_ptr<const RunMonitor> monitor,
                                 std::shared_ptr<RunControl> control)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(monitor), std::move(control))) {}
DashboardServer::~DashboardServer() = default;
uint16_t DashboardServer::port() const { return implementation_->port(); }
std::string DashboardServer::address() const { return implementation_->address(); }

}  // namespace transom::dashboard
