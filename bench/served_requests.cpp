// SPDX-License-Identifier: Apache-2.0
// A server over many short requests: its memory should become flat, its answers stay the same. Server and clients are
// one process, so that what both keep is seen.
//   served_requests MODEL [--requests 100000] [--clients 16] [--tokens 4] [--prompts 500]
// MODEL writes text. Every hundredth request streams, every hundredth is refused.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <map>

#include "apps/serve/server/server.h"
#include "base/error.h"
#include "base/json/json.h"
#include "tools/client/http_client.h"

namespace transom {
namespace {

struct Options {
  std::string model;
  int64_t requests = 100'000, clients = 16, tokens = 4, prompts = 500;
};

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto number = [&] { return i + 1 < count ? std::atoll(words[++i]) : 0; };
    if (word == "--requests") options.requests = number();
    else if (word == "--clients") options.clients = number();
    else if (word == "--tokens") options.tokens = number();
    else if (word == "--prompts") options.prompts = number();
    else options.model = word;
  }
  if (options.model.empty() || options.requests < 1 || options.clients < 1 || options.tokens < 1 || options.prompts < 1)
    fail(ErrorKind::kUsage,
         "expected: served_requests MODEL [--requests N] [--clients N] [--tokens N] [--prompts N], numbers above 0");
  return options;
}

double resident_mebibytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// Of different lengths, and with a beginning that some share.
client::ClientRequest request_of(const Options& options, int64_t number) {
  const int64_t prompt = number % options.prompts;
  std::string text = prompt % 3 == 0 ? "The same words come first: " : "";
  for (int64_t i = 0; i <= prompt % 23; ++i) text += fmt::format("{} ", (prompt * 31 + i * 7) % 1000);
  Json body{{"prompt", text}, {"max_tokens", options.tokens}, {"temperature", number % 2}, {"seed", 7}};
  if (number % 100 == 50) body["stream"] = true;
  if (number % 100 == 70) body["temperature"] = "warm";
  return {.method = "POST", .path = "/v1/completions", .body = dump_json(body), .headers = {}};
}

// What two answers to the same request share.
std::string text_of(const client::ClientReply& reply) {
  const Json json = Json::parse(reply.body, nullptr, false);
  return json.is_object() && json.contains("choices") ? json["choices"].dump() : "";
}

int run(const Options& options) {
  serve::ServeOptions serving;
  serving.models = {{"model", options.model}};
  serving.http.port = 0;
  serving.max_waiting = 4 * options.clients;
  serve::Server server(serving);
  server.start();
  server.load();
  const auto url = client::parse_http_url(fmt::format("http://127.0.0.1:{}", server.port()), "server");
  std::map<int64_t, std::string> known;  // by prompt and temperature
  int64_t wrong = 0, refused = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::cout << "requests  seconds  wrong  refused  resident MiB  allocated MiB\n";
  const int64_t part = std::max<int64_t>(1, options.requests / 20);
  for (int64_t done = 0; done < options.requests;) {
    const int64_t until = std::min(options.requests, (done / part + 1) * part);
    while (done < until) {
      std::vector<client::ClientRequest> requests;
      const int64_t first = done;
      for (; done < std::min(until, first + 1000); ++done) requests.push_back(request_of(options, done));
      const auto replies = client::fetch_all(url, std::move(requests), static_cast<size_t>(options.clients));
      for (int64_t number = first; number < done; ++number) {
        const client::ClientReply& reply = replies[static_cast<size_t>(number - first)];
        const bool broken = number % 100 == 70;
        refused += reply.status == 400;
        if (reply.status != (broken ? 400 : 200)) ++wrong;
        if (broken || number % 100 == 50) continue;
        const auto [place, made] = known.emplace(2 * (number % options.prompts) + number % 2, text_of(reply));
        wrong += !made && place->second != text_of(reply);
      }
    }
    std::cout << fmt::format("{:>8} {:>8.1f} {:>6} {:>8} {:>13.1f} {:>14.1f}\n", done,
                             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), wrong,
                             refused, resident_mebibytes(), static_cast<double>(::mallinfo2().uordblks) / (1 << 20))
              << std::flush;
  }
  server.stop();
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace transom

int main(int count, char** words) {
  try {
    return transom::run(transom::parse(count, words));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
