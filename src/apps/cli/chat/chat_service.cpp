// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/chat/chat_service.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "apps/serve/server/server.h"
#include "base/error.h"
#include "files/hub/resolve.h"
#include "work/pipelines/task_of_model.h"

namespace transom {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{20};

// What comes is kept until the thread that waits takes it.
class KeepingResponder final : public serve::Responder {
 public:
  void respond(serve::HttpResponse response) override {
    const std::lock_guard lock(mutex_);
    status_ = response.status;
    pieces_ += response.body;
    end();
  }
  void begin_stream(serve::HttpResponse head) override {
    const std::lock_guard lock(mutex_);
    status_ = head.status;
    pieces_ += head.body;
    news_.notify_all();
  }
  bool write(std::string part) override {
    const std::lock_guard lock(mutex_);
    if (gone_) return false;
    pieces_ += part;
    news_.notify_all();
    return true;
  }
  void finish() override {
    const std::lock_guard lock(mutex_);
    end();
  }
  bool gone() const override {
    const std::lock_guard lock(mutex_);
    return gone_;
  }
  void on_gone(std::function<void()> left) override {
    {
      const std::lock_guard lock(mutex_);
      if (!gone_) {
        left_ = std::move(left);
        return;
      }
    }
    left();
  }

  // The pieces that have come, or nothing after a moment. False: nothing more comes.
  bool take(std::string& pieces, int& status) {
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, kBetweenLooks, [this] { return ended_ || !pieces_.empty(); });
    pieces = std::exchange(pieces_, {});
    status = status_;
    return !ended_ || !pieces.empty();
  }
  void leave() {
    std::function<void()> left;
    {
      const std::lock_guard lock(mutex_);
      if (gone_ || ended_) return;
      gone_ = true;
      left = std::move(left_);
    }
    if (left) left();
  }

 private:
  void end() {
    ended_ = true;
    left_ = nullptr;
    news_.notify_all();
  }
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::string pieces_;
  int status_ = 0;
  bool ended_ = false, gone_ = false;
  std::function<void()> left_;
};

class LocalChatService final : public ChatService {
 public:
  explicit LocalChatService(const serve::ServeOptions& options) : model_(options.models.at(0).name), server_(options) {
    server_.load();
  }

  ChatReply post(const std::string& body, const std::function<void(std::string_view)>& take,
                 const std::function<bool()>& stopped) override {
    const auto request = std::make_shared<serve::HttpRequest>();
    request->method = "POST";
    request->target = request->path = "/v1/chat/completions";
    request->body = body;
    request->id = "chat";
    const auto responder = std::make_shared<KeepingResponder>();
    server_.handle(request, responder);
    ChatReply reply;
    std::string pieces;
    while (responder->take(pieces, reply.status)) {
      if (reply.status == 200) take(pieces);
      else reply.body += pieces;
      if (!reply.stopped && stopped()) {
        reply.stopped = true;
        responder->leave();
        break;
      }
    }
    return reply;
  }
  const std::string& model() const override { return model_; }

 private:
  std::string model_;
  serve::Server server_;
};

// Hands on what comes over a connection.
class HandingListener final : public client::ClientListener {
 public:
  HandingListener(ChatReply& reply, const std::function<void(std::string_view)>& take) : reply_(reply), take_(take) {}
  void on_head(int status) override { reply_.status = status; }
  void on_body(std::string_view piece) override {
    if (reply_.status == 200) take_(piece);
    else if (reply_.body.size() < 100'000) reply_.body += piece;
  }
  void on_end(const std::string& error) override {
    reply_.failure = error;
    ended = true;
  }
  bool ended = false;

 private:
  ChatReply& reply_;
  const std::function<void(std::string_view)>& take_;
};

class RemoteChatService final : public ChatService {
 public:
  RemoteChatService(const RemoteOptions& remote, const std::string& model)
      : server_(client::parse_http_url(*remote.server, "--server")),
        headers_(key_headers(remote.api_key)),
        model_(remote_model(server_, headers_, model).name) {}

  ChatReply post(const std::string& body, const std::function<void(std::string_view)>& take,
                 const std::function<bool()>& stopped) override {
    ChatReply reply;
    const auto listener = std::make_shared<HandingListener>(reply, take);
    client::HttpClient client(server_);
    client.send({.method = "POST", .path = "/v1/chat/completions", .body = body, .headers = headers_}, listener);
    const std::function<void()> look = [&] {
      if (listener->ended) return;
      if (stopped()) {
        reply.stopped = true;
        client.stop();
      } else {
        client.at(client::Clock::now() + kBetweenLooks, look);
      }
    };
    look();
    client.run();
    if (reply.stopped) reply.failure.clear();
    if (!reply.failure.empty()) reply.failure = fmt::format("{}: {}", server_.text(), reply.failure);
    return reply;
  }
  const std::string& model() const override { return model_; }

 private:
  client::HttpUrl server_;
  RequestHeaders headers_;
  std::string model_;
};

}  // namespace

std::unique_ptr<ChatService> local_chat_service(const serve::ServeOptions& options) {
  const serve::ModelSource& source = options.models.at(0);
  if (const std::string task = task_of_model(resolve_model(source.path, options.hub).string());
      task != "text-generation")
    fail(ErrorKind::kUsage, "{}: expected a model that writes text, found one for {}", source.path, task);
  return std::make_unique<LocalChatService>(options);
}

std::unique_ptr<ChatService> remote_chat_service(const RemoteOptions& remote, const std::string& model) {
  return std::make_unique<RemoteChatService>(remote, model);
}

}  // namespace transom
