// SPDX-License-Identifier: Apache-2.0
// Connections and their limits, with a service that echoes: what servers of others have fallen over.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/serve/http/pace.h"
#include "apps/serve/http/server.h"
#include "apps/serve/http_client.h"

namespace transom {
namespace {

using serve::HttpRequest;
using serve::HttpResponse;
using serve::Responder;
using test::Answer;
using test::Client;

// Answers with the body; /hold keeps the answer, /stream sends it in parts, /refused is refused before the body.
class Echo : public serve::HttpService {
 public:
  std::optional<HttpResponse> admit(const HttpRequest& head, uint64_t& body_limit) override {
    if (head.path == "/refused") return HttpResponse{.status = 401, .body = "no"};
    body_limit = 1 << 20;
    return std::nullopt;
  }
  void handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder) override {
    if (request->path == "/hold") {
      const std::lock_guard lock(mutex);
      responder->on_gone([this] { ++left; });
      held.push_back(responder);
      requests.push_back(request);
    } else if (request->path == "/stream") {
      responder->begin_stream({.status = 200, .body = "one ", .content_type = "text/plain"});
      responder->write("two ");
      responder->write("three");
      responder->finish();
    } else if (request->path == "/large") {
      responder->respond({.status = 200, .body = std::string(64 << 20, 'x'), .content_type = "text/plain"});
    } else if (request->path == "/flood") {
      responder->begin_stream({.status = 200, .content_type = "text/plain"});
      while (responder->write(std::string(64 * 1024, 'x'))) ++parts;
      ended = true;
    } else {
      responder->respond({.status = 200,
                          .body = request->method + " " + request->path + " " + request->body,
                          .content_type = "text/plain"});
    }
  }
  HttpResponse refusal(int status, const std::string& reason) override { return {.status = status, .body = reason}; }

  std::mutex mutex;
  std::vector<std::shared_ptr<Responder>> held;
  std::vector<std::shared_ptr<HttpRequest>> requests;  // of those
  std::atomic<int> left{0}, parts{0};
  std::atomic<bool> ended{false};
};

class Connections : public testing::Test {
 protected:
  void SetUp() override { start({}); }
  void TearDown() override {
    server_->stop();
    service_.held.clear();
    service_.requests.clear();
  }
  void start(serve::HttpOptions options) {
    options.port = 0;
    if (server_) server_->stop();
    server_ = std::make_unique<serve::HttpServer>(options, service_);
    server_->start();
  }
  uint16_t port() const { return server_->port(); }
  static bool soon(const std::function<bool()>& condition) {
    for (int i = 0; i < 500; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  Echo service_;
  std::unique_ptr<serve::HttpServer> server_;
};

TEST_F(Connections, SeveralRequestsShareOne) {
  Client client(port());
  EXPECT_EQ(client.post("/a", "x").body, "POST /a x");
  EXPECT_EQ(client.get("/b%20c?d=e").body, "GET /b c ");
  const Answer streamed = client.get("/stream");
  EXPECT_EQ(streamed.body, "one two three");
  EXPECT_EQ(streamed.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(client.post("/a", "y").body, "POST /a y");
}

TEST_F(Connections, PipelinedRequestsAreAnsweredInOrder) {
  Client client(port());
  ASSERT_TRUE(
      client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiGET /3 "
                  "HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(client.read_answer().body, "GET /1 ");
  EXPECT_EQ(client.read_answer().body, "POST /2 hi");
  EXPECT_EQ(client.read_answer().body, "GET /3 ");
}

TEST_F(Connections, HeadHasNoBody) {
  Client client(port());
  client.send_request("HEAD", "/x");
  EXPECT_EQ(client.read_answer(true).headers.at("content-length"), "7");
  EXPECT_EQ(client.get("/y").body, "GET /y ");
}

TEST_F(Connections, OlderClientsGetStreamsThatEndWithTheConnection) {
  Client client(port());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.body, "one two three");
  EXPECT_FALSE(answer.headers.contains("transfer-encoding"));
}

TEST_F(Connections, WaitsForTheWordToGoOn) {
  Client client(port());
  client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  while (client.buffer().find("100 Continue") == std::string::npos) ASSERT_TRUE(client.receive());
  client.send("ok");
  EXPECT_EQ(client.read_answer().body, "POST /a ok");
}

TEST_F(Connections, RefusesABodyThatIsDeclaredTooLarge) {
  for (const char* length : {"1099511627776", "1048577", "18446744073709551615"}) {
    Client client(port());
    client.send(std::string("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: ") + length + "\r\n\r\n");
    EXPECT_EQ(client.read_answer().status, 413) << length;
    EXPECT_TRUE(client.closed());
  }
}

TEST_F(Connections, RefusesABodyThatTurnsOutTooLarge) {
  Client client(port());
  client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string part(64 * 1024, 'x');
  for (int i = 0; i < 40 && client.send("10000\r\n" + part + "\r\n"); ++i) {
  }
  EXPECT_EQ(client.read_answer().status, 413);
}

// A chunk a byte: 200,000 of them.
TEST_F(Connections, TakesTinyChunksInLinearTime) {
  Client client(port());
  client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::string chunks;
  for (int i = 0; i < 200'000; ++i) chunks += "1\r\nx\r\n";
  client.send(chunks + "0\r\n\r\n");
  EXPECT_EQ(client.read_answer().body.size(), 8 + 200'000u);
}

TEST_F(Connections, RefusesLargeAndManyHeaders) {
  {
    Client client(port());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(1 << 20, 'x') + "\r\n\r\n");
    EXPECT_EQ(client.read_answer().status, 431);
  }
  {
    Client client(port());
    std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
    for (int i = 0; i < 20'000; ++i) head += "X: y\r\n";
    client.send(head + "\r\n");
    EXPECT_EQ(client.read_answer().status, 431);
  }
  {
    Client client(port());
    std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
    for (int i = 0; i < 150; ++i) head += "X: y\r\n";
    client.send(head + "\r\n");
    EXPECT_EQ(client.read_answer().status, 431);
  }
}

// Two lengths, a length beside chunks, bare line ends, what is no HTTP: all ways to smuggle a request.
TEST_F(Connections, RefusesWhatIsNotHttp) {
  for (const char* text : {"POST /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
                           "POST /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                           "POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                           "POST /a HTTP/1.1\r\nContent-Length: 1x\r\n\r\n", "hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                           "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n"}) {
    Client client(port());
    client.send(text);
    EXPECT_EQ(client.read_answer().status, 400) << text;
  }
}

// A proxy that reads these in another way takes for one request what is two here.
TEST_F(Connections, RefusesWhatOthersMayReadInAnotherWay) {
  const auto status = [&](const std::string& text) {
    Client client(port());
    client.send(text);
    return client.read_answer().status;
  };
  for (const std::string encoding : {"identity", "gzip, chunked", "xchunked"})
    EXPECT_EQ(status("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " + encoding + "\r\n\r\n1\r\na\r\n0\r\n\r\n"),
              501)
        << encoding;
  EXPECT_EQ(status("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), 200);
  EXPECT_EQ(status("GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
}

TEST_F(Connections, RefusesCompressedBodies) {
  Client client(port());
  client.send_request("POST", "/a", "x", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(client.read_answer().status, 415);
}

TEST_F(Connections, ReadsNoBodyOfARefusedRequest) {
  Client client(port());
  client.send("POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 401);
  EXPECT_TRUE(client.closed());
}

TEST_F(Connections, EndsWhatIsSlow) {
  serve::HttpOptions options;
  options.header_timeout = options.body_timeout = options.idle_timeout = std::chrono::milliseconds(200);
  start(options);
  Client silent(port()), slow_head(port()), slow_body(port());
  slow_head.send("GET / HT");
  slow_body.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx");
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(slow_head.closed());
  EXPECT_TRUE(slow_body.closed());
  Client kept(port());
  EXPECT_EQ(kept.get("/").status, 200);
  EXPECT_TRUE(kept.closed());
}

// A byte now and then keeps no place; who keeps to the rate may take longer than the time of a span.
TEST_F(Connections, BodiesComeAtARate) {
  serve::HttpOptions options;
  options.body_timeout = std::chrono::milliseconds(300);
  options.least_rate = 10'000;
  start(options);
  Client slow(port()), steady(port());
  slow.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  steady.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 64000\r\n\r\n");
  const auto begin = std::chrono::steady_clock::now();
  bool ended = false;
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(steady.send(std::string(4000, 'x')));
    ended = ended || !slow.send("x") || slow.closed(0.01);
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
  }
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 2 * options.body_timeout);
  EXPECT_EQ(steady.read_answer().status, 200);
  EXPECT_TRUE(ended || slow.closed());
}

TEST(Pace, ATimeEndsWithEnoughBytes) {
  serve::Pace pace;
  EXPECT_FALSE(pace.runs());
  pace.start();
  EXPECT_TRUE(pace.runs());
  EXPECT_FALSE(pace.reaches(100, 99));
  EXPECT_TRUE(pace.reaches(100, 1));
  EXPECT_FALSE(pace.reaches(100, 99));  // of the next time
  pace.start();
  EXPECT_FALSE(pace.reaches(100, 99));
  pace.stop();
  EXPECT_FALSE(pace.runs());
}

// The slow client takes a fifth of the rate. The other takes what it can, which on a busy machine, or under a
// sanitizer, is not always much: it has seconds for what else takes a tenth of one.
TEST_F(Connections, AnswersAreTakenAtARate) {
  serve::HttpOptions options;
  options.write_timeout = std::chrono::milliseconds(2000);
  options.least_rate = 4'000'000;
  start(options);
  Client slow(port()), quick(port());
  ASSERT_TRUE(soon([&] { return server_->statistics().connections == 2; }));
  slow.send_request("GET", "/large");
  for (int i = 0; i < 1000 && server_->statistics().connections == 2; ++i) {
    slow.receive(0.1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(server_->statistics().connections, 1);
  EXPECT_EQ(quick.get("/large").body.size(), 64u << 20);
}

TEST_F(Connections, LargeBodiesShareALimit) {
  serve::HttpOptions options;
  options.body_bytes = 300'000;
  start(options);
  const std::string large(200'000, 'x');
  const auto held = [&](size_t count) {
    return soon([&] {
      const std::lock_guard lock(service_.mutex);
      return service_.requests.size() == count;
    });
  };
  Client first(port());
  first.send_request("POST", "/hold", large);
  ASSERT_TRUE(held(1));
  Client second(port());
  second.send_request("POST", "/a", large);
  EXPECT_EQ(second.read_answer().status, 503);
  EXPECT_EQ(Client(port()).post("/a", std::string(1000, 'x')).status, 200);
  {
    const std::lock_guard lock(service_.mutex);
    service_.requests.clear();
  }
  EXPECT_EQ(Client(port()).post("/a", large).status, 200);
  // What a client leaves behind half sent counts no more.
  {
    Client half(port());
    half.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 250001\r\n\r\n" + std::string(250'000, 'x'));
    ASSERT_TRUE(soon([&] { return server_->statistics().active == 2; }));  // and the first
  }
  ASSERT_TRUE(soon([&] { return server_->statistics().active == 1; }));
  EXPECT_EQ(Client(port()).post("/a", large).status, 200);
}

TEST_F(Connections, AnswersThatNobodyTakesShareALimit) {
  serve::HttpOptions options;
  options.answer_bytes = 1'000'000;
  start(options);
  Client idle(port());
  idle.send_request("GET", "/large");
  ASSERT_TRUE(idle.receive());
  EXPECT_EQ(Client(port()).get("/large").status, 503);
  EXPECT_EQ(Client(port()).post("/a", "x").status, 200);
  idle.close();
  EXPECT_TRUE(soon([&] { return Client(port()).get("/large").status == 200; }));
}

TEST_F(Connections, SeesThatAClientLeaves) {
  {
    Client client(port());
    client.send_request("GET", "/hold");
    ASSERT_TRUE(soon([&] { return server_->statistics().active == 1; }));
  }
  EXPECT_TRUE(soon([&] { return service_.left == 1; }));
  Client half(port());
  half.send_request("GET", "/hold");
  ASSERT_TRUE(soon([&] { return server_->statistics().active == 1; }));
  half.shut_writing();
  EXPECT_TRUE(soon([&] { return service_.left == 2; }));
  EXPECT_TRUE(soon([&] { return server_->statistics().active == 0; }));
}

TEST_F(Connections, AClientThatPipelinesAndEndsItsInputIsAnswered) {
  Client client(port());
  client.send(
      "GET /hold HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nPOST /3 HTTP/1.1\r\nHost: a\r\n"
      "Content-Length: 2\r\n\r\nhi");
  client.shut_writing();
  ASSERT_TRUE(soon([&] { return server_->statistics().active == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(service_.left, 0);
  {
    const std::lock_guard lock(service_.mutex);
    service_.held.at(0)->respond({.status = 200, .body = "1"});
  }
  EXPECT_EQ(client.read_answer().body, "1");
  EXPECT_EQ(client.read_answer().body, "GET /2 ");
  EXPECT_EQ(client.read_answer().body, "POST /3 hi");
  EXPECT_TRUE(client.closed());
  // Sent and ended at once, without an answer that is waited for.
  Client quick(port());
  quick.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  quick.shut_writing();
  EXPECT_EQ(quick.read_answer().body, "GET /1 ");
  EXPECT_EQ(quick.read_answer().body, "GET /2 ");
  EXPECT_TRUE(quick.closed());
}

TEST_F(Connections, SeesThatAClientLeavesBehindWhatItPipelined) {
  for (const int bytes : {1, 100, 20'000}) {
    const int before = service_.left;
    {
      Client client(port());
      client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n" + std::string(static_cast<size_t>(bytes), 'G'));
      ASSERT_TRUE(soon([&] { return server_->statistics().active == 1; }));
    }
    EXPECT_TRUE(soon([&] { return service_.left == before + 1; })) << bytes;
    EXPECT_TRUE(soon([&] { return server_->statistics().active == 0; }));
  }
}

TEST_F(Connections, PipelinedRequestsInPieces) {
  const std::string request = "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
  for (size_t cut = 1; cut < request.size(); cut += 7) {
    Client client(port());
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n" + request.substr(0, cut));
    EXPECT_EQ(client.read_answer().body, "GET /1 ");
    client.send(request.substr(cut) + request);
    EXPECT_EQ(client.read_answer().body, "POST /2 hi") << cut;
    EXPECT_EQ(client.read_answer().body, "POST /2 hi") << cut;
  }
}

TEST_F(Connections, DropsAClientThatDoesNotRead) {
  serve::HttpOptions options;
  options.unsent_limit = 256 * 1024;
  start(options);
  Client client(port());
  client.send_request("GET", "/flood");
  EXPECT_TRUE(soon([&] { return service_.ended.load(); }));
  EXPECT_LT(service_.parts, 2000);  // what the kernel's buffers take, and the limit
}

TEST_F(Connections, ForgottenRequestsAreAnswered) {
  Client client(port());
  client.send_request("GET", "/hold");
  ASSERT_TRUE(soon([&] {
    const std::lock_guard lock(service_.mutex);
    return service_.held.size() == 1;
  }));
  {
    const std::lock_guard lock(service_.mutex);
    service_.held.clear();
  }
  EXPECT_EQ(client.read_answer().status, 500);
}

TEST_F(Connections, MoreThanTheLimitAreRefused) {
  serve::HttpOptions options;
  options.max_connections = 2;
  start(options);
  Client first(port()), second(port());
  EXPECT_EQ(first.get("/").status, 200);
  EXPECT_EQ(second.get("/").status, 200);
  Client third(port());
  EXPECT_EQ(third.read_answer().status, 503);
  first.close();
  EXPECT_TRUE(soon([&] {
    try {
      return Client(port()).get("/").status == 200;
    } catch (const std::exception&) {
      return false;
    }
  }));
}

TEST_F(Connections, DrainingEndsConnectionsBehindTheirAnswer) {
  Client busy(port()), idle(port());
  EXPECT_EQ(idle.get("/").status, 200);
  busy.send_request("GET", "/hold");
  ASSERT_TRUE(soon([&] {
    const std::lock_guard lock(service_.mutex);
    return !service_.held.empty();
  }));
  server_->drain();
  EXPECT_TRUE(idle.closed());
  {
    const std::lock_guard lock(service_.mutex);
    service_.held[0]->respond({.status = 200, .body = "late"});
  }
  const Answer answer = busy.read_answer();
  EXPECT_EQ(answer.body, "late");
  EXPECT_EQ(answer.headers.at("connection"), "close");
}

TEST_F(Connections, RequestIdsAreGivenBack) {
  Client client(port());
  EXPECT_EQ(client.get("/", "X-Request-Id: mine-1\r\n").headers.at("x-request-id"), "mine-1");
  const std::string own = client.get("/", "X-Request-Id: " + std::string(200, 'x') + "\r\n").headers.at("x-request-id");
  EXPECT_TRUE(own.starts_with("req-")) << own;
}

TEST(HttpMessage, NamesTheTraceOfARequest) {
  const std::string trace = "0af7651916cd43dd8448eb211c80319c", good = "00-" + trace + "-b7ad6b7169203331-01";
  EXPECT_EQ(serve::trace_id(&good), trace);
  EXPECT_EQ(serve::trace_id(nullptr), "");
  const std::string later = "01" + good.substr(2) + "-more";
  EXPECT_EQ(serve::trace_id(&later), trace);
  for (const std::string& text :
       {std::string(""), std::string("00"), good.substr(1), good + "-more", "ff" + good.substr(2),
        "00-" + std::string(32, '0') + good.substr(35), good.substr(0, 36) + std::string(16, '0') + "-01",
        "00-" + std::string(32, 'A') + good.substr(35), std::string(good).replace(35, 1, "_"),
        good.substr(0, 53) + "zz", std::string(55, '-'), std::string(55, '"')})
    EXPECT_EQ(serve::trace_id(&text), "") << text;
}

TEST(HttpMessage, DecodesPathsAndHeaders) {
  const auto path_of = [](const std::string& target) -> std::string {
    serve::HttpRequest request{.target = target};
    return serve::read_target(request) ? request.path : "refused";
  };
  EXPECT_EQ(path_of("/a%2Fb%20c?d=%4"), "/a/b c");
  for (const char* target : {"/%4", "/%00"}) EXPECT_EQ(path_of(target), "refused");
  EXPECT_EQ(serve::header_parameter("multipart/form-data; boundary=\"a;b\"; x=1", "boundary"), "a;b");
  EXPECT_EQ(serve::header_parameter("a; Boundary=xyz", "boundary"), "xyz");
  EXPECT_EQ(serve::header_parameter("a; b", "boundary"), "");
}

}  // namespace
}  // namespace transom
