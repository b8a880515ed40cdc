// SPDX-License-Identifier: Apache-2.0
#include "tools/client/http_url.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace transom::client {
namespace {

TEST(HttpUrl, ReadsWhatPeopleType) {
  struct Case {
    const char *text, *host, *port, *path, *authority;
    bool secure;
  };
  for (const Case& each : {Case{"http://localhost:8000", "localhost", "8000", "", "localhost:8000", false},
                           Case{"localhost:8000/", "localhost", "8000", "", "localhost:8000", false},
                           Case{"https://models.example/v1/", "models.example", "443", "/v1", "models.example", true},
                           Case{"http://[::1]:9/a/b", "::1", "9", "/a/b", "[::1]:9", false},
                           Case{"http://10.0.0.1", "10.0.0.1", "80", "", "10.0.0.1", false}}) {
    const HttpUrl url = parse_http_url(each.text, "--server");
    EXPECT_EQ(url.host, each.host);
    EXPECT_EQ(url.port, each.port);
    EXPECT_EQ(url.path, each.path);
    EXPECT_EQ(url.authority(), each.authority);
    EXPECT_EQ(url.secure, each.secure);
  }
}

TEST(HttpUrl, RefusesTheRest) {
  for (const char* text : {"", "http://", "ftp://a", "http://a:b", "http://a:70000", "http://a:", "http://me@a",
                           "http://a/?b", "http://a#b", "http://a b", "http://a\r\nX: y", "http://[::1", "http://:80"})
    EXPECT_THROW(parse_http_url(text, "--server"), Error) << text;
  try {
    parse_http_url("ftp://a", "--server");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("--server: expected a URL"), 0u) << error.what();
  }
}

}  // namespace
}  // namespace transom::client
