// SPDX-License-Identifier: Apache-2.0
// A server with a certificate, asked by the program's own client.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/http/server.h"
#include "apps/serve/http_client.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "tools/client/http_client.h"
#include "transom/error.h"

namespace transom {
namespace {

using serve::HttpRequest;
using serve::HttpResponse;
using serve::Responder;

template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

// For "localhost", signed by its own key.
void write_certificate(const std::string& certificate_file, const std::string& key_file) {
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Owned<X509> certificate(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const Owned<std::FILE> first(std::fopen(certificate_file.c_str(), "w"), close);
  ASSERT_EQ(PEM_write_X509(first.get(), certificate.get()), 1);
  const Owned<std::FILE> second(std::fopen(key_file.c_str(), "w"), close);
  ASSERT_EQ(PEM_write_PrivateKey(second.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
}

class SecureEcho : public serve::HttpService {
 public:
  std::optional<HttpResponse> admit(const HttpRequest&, uint64_t& body_limit) override {
    body_limit = 8 << 20;
    return std::nullopt;
  }
  void handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder) override {
    const std::string start = request->secure ? "secure " : "plain ";
    if (request->path == "/stream") {
      responder->begin_stream({.status = 200, .content_type = "text/plain"});
      for (int i = 0; i < 100; ++i) responder->write(start);
      return responder->finish();
    }
    responder->respond({.status = 200, .body = start + request->body, .content_type = "text/plain"});
  }
  HttpResponse refusal(int status, const std::string& reason) override { return {.status = status, .body = reason}; }
};

class Tls : public testing::Test {
 protected:
  void SetUp() override {
    write_certificate((folder_ / "certificate.pem").string(), (folder_ / "key.pem").string());
    serve::HttpOptions options;
    options.port = 0;
    options.ssl_certfile = (folder_ / "certificate.pem").string();
    options.ssl_keyfile = (folder_ / "key.pem").string();
    options.header_timeout = std::chrono::milliseconds(1000);
    server_ = std::make_unique<serve::HttpServer>(options, service_);
    server_->start();
  }
  client::HttpUrl url() const {
    return client::parse_http_url("https://localhost:" + std::to_string(server_->port()), "url");
  }
  test::TemporaryFolder folder_;
  SecureEcho service_;
  std::unique_ptr<serve::HttpServer> server_;
};

TEST_F(Tls, AnswersWholeAndInParts) {
  const client::ClientOptions any{.verify = false};
  EXPECT_EQ(client::fetch(url(), {.method = "POST", .path = "/a", .body = "hello"}, any).body, "secure hello");
  const std::string large(4 << 20, 'x');
  EXPECT_EQ(client::fetch(url(), {.method = "POST", .path = "/a", .body = large}, any).body, "secure " + large);
  std::string parts;
  for (int i = 0; i < 100; ++i) parts += "secure ";
  EXPECT_EQ(client::fetch(url(), {.path = "/stream"}, any).body, parts);
  std::vector<client::ClientRequest> many(64, {.method = "POST", .path = "/a", .body = "b"});
  for (const client::ClientReply& reply : client::fetch_all(url(), many, 16, any)) EXPECT_EQ(reply.body, "secure b");
}

TEST_F(Tls, ACertificateThatNobodyKnowsIsRefusedByTheClient) {
  EXPECT_NE(test::message_of([&] { client::fetch(url(), {.path = "/a"}); }), "");
}

// No handshake, or what is none: the place is given back.
TEST_F(Tls, ClientsThatDoNotSpeakItAreLeft) {
  test::Client silent(server_->port()), plain(server_->port()), noise(server_->port());
  plain.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  noise.send(std::string(3000, '\x16'));
  EXPECT_TRUE(plain.closed());
  EXPECT_TRUE(noise.closed());
  EXPECT_TRUE(silent.closed(10));
  for (int i = 0; i < 500 && server_->statistics().connections > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(server_->statistics().connections, 0);
  EXPECT_EQ(client::fetch(url(), {.method = "POST", .path = "/a", .body = "b"}, {.verify = false}).body, "secure b");
}

TEST_F(Tls, FilesThatHoldNoKeyAreNamed) {
  serve::HttpOptions options;
  options.port = 0;
  options.ssl_certfile = (folder_ / "key.pem").string();
  serve::HttpServer broken(options, service_);
  EXPECT_NE(test::message_of([&] { broken.start(); }).find("--ssl_certfile"), std::string::npos);
  options.ssl_certfile = (folder_ / "certificate.pem").string();
  serve::HttpServer without_key(options, service_);
  EXPECT_NE(test::message_of([&] { without_key.start(); }).find("--ssl_keyfile"), std::string::npos);
}

}  // namespace
}  // namespace transom
