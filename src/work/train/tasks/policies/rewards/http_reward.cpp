// SPDX-License-Identifier: Apache-2.0
// A server that is sent completions as lines of JSON and answers with a reward for each. What fails for a moment is
// asked again; a run does not go on without its rewards.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/threads/interrupt.h"
#include "files/hub/curl_library.h"
#include "work/train/tasks/policies/rewards/reward_lines.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

constexpr long kConnectSeconds = 30, kLongestAnswerSeconds = 600;
constexpr size_t kMostAnswerBytes = 64 << 20, kShownOfAnswer = 400;
constexpr int kRewardTries = 3;

struct HttpAnswer {
  int status = 0;
  std::string failure;  // empty: the answer is whole
  std::string body;
  bool too_long = false;

  bool may_be_better_later() const { return !too_long && (!failure.empty() || status == 429 || status >= 500); }
};

struct CurlOwner {
  void operator()(CURL* handle) const { curl().easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl().slist_free_all(list); }
};

size_t take_answer(char* data, size_t size, size_t count, void* pointer) {
  auto& answer = *static_cast<HttpAnswer*>(pointer);
  answer.too_long = answer.body.size() + size * count > kMostAnswerBytes;
  if (answer.too_long) return 0;
  answer.body.append(data, size * count);
  return size * count;
}

int stop_at_interrupt(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  try {
    check_interrupted();
    return 0;
  } catch (const Error&) {  // thrown again behind the library of C
    return 1;
  }
}

// Redirects are not followed: the rows of a run go to the server that was named and to no other.
HttpAnswer post_lines(const std::string& url, const std::string& lines) {
  const std::unique_ptr<CURL, CurlOwner> handle(curl().easy_init());
  if (!handle) fail(ErrorKind::kInternal, "libcurl cannot be started");
  std::unique_ptr<curl_slist, CurlOwner> headers;
  for (const char* line : {"Content-Type: application/x-ndjson", "Accept: application/x-ndjson", "Expect:"}) {
    curl_slist* longer = curl().slist_append(headers.get(), line);
    if (!longer) throw std::bad_alloc();
    headers.release();
    headers.reset(longer);
  }
  HttpAnswer answer;
  std::string failure(CURL_ERROR_SIZE, '\0');
  CURL* const at = handle.get();
  curl().easy_setopt(at, CURLOPT_URL, url.c_str());
  curl().easy_setopt(at, CURLOPT_PROTOCOLS_STR, "http,https");
  curl().easy_setopt(at, CURLOPT_HTTPHEADER, headers.get());
  curl().easy_setopt(at, CURLOPT_POST, 1L);
  curl().easy_setopt(at, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(lines.size()));
  curl().easy_setopt(at, CURLOPT_POSTFIELDS, lines.c_str());
  curl().easy_setopt(at, CURLOPT_USERAGENT, "transom/0.1");
  curl().easy_setopt(at, CURLOPT_NOSIGNAL, 1L);
  curl().easy_setopt(at, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl().easy_setopt(at, CURLOPT_TIMEOUT, kLongestAnswerSeconds);
  curl().easy_setopt(at, CURLOPT_ERRORBUFFER, failure.data());
  curl().easy_setopt(at, CURLOPT_WRITEFUNCTION, &take_answer);
  curl().easy_setopt(at, CURLOPT_WRITEDATA, &answer);
  curl().easy_setopt(at, CURLOPT_NOPROGRESS, 0L);
  curl().easy_setopt(at, CURLOPT_XFERINFOFUNCTION, &stop_at_interrupt);
  const CURLcode outcome = curl().easy_perform(at);
  long status = 0;
  curl().easy_getinfo(at, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  if (outcome != CURLE_OK) {
    failure.resize(failure.find('\0'));
    answer.failure = failure.empty() ? curl().easy_strerror(outcome) : failure;
  }
  return answer;
}

std::vector<std::optional<double>> rewards_from(const std::string& url, const RewardRequest& request) {
  const std::string where = fmt::format("--reward_funcs: {}", url), lines = reward_request_lines(request);
  HttpAnswer answer;
  for (int attempt = 1; attempt <= kRewardTries; ++attempt) {
    answer = post_lines(url, lines);
    check_interrupted();
    if (!answer.may_be_better_later() || attempt == kRewardTries) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(250) * attempt);
  }
  if (answer.too_long) fail("{}: the answer is longer than the {} bytes that are taken", where, kMostAnswerBytes);
  if (!answer.failure.empty()) fail("{}: {}", where, answer.failure);
  if (answer.status != 200)
    fail("{}: expected an answer of status 200, found {}: {}", where, answer.status,
         quoted(answer.body.substr(0, kShownOfAnswer)));
  return rewards_of_lines(answer.body, request.completions.size(), where);
}

}  // namespace

Reward http_reward(const std::string& url) {
  return {"http", [url](const RewardRequest& request) { return rewards_from(url, request); }};
}

}  // namespace transom
