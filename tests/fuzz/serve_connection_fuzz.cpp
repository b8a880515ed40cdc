// SPDX-License-Identifier: Apache-2.0
// A whole server with small models of all kinds, and what clients send it. The first byte chooses: `r` and all that
// follows are the bytes of a connection, which then leaves; any other names a path, to which the rest is sent as the
// body; with `e` before the path the last line is a body as a client would write it, and each two bytes of what is
// before it replace one of its values by another of any type. Whatever comes back is HTTP, a body is JSON where its
// head says so, and nothing is answered by 500.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/server/server.h"
#include "base/json/json.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace {

using namespace transom;

// In the order of the bytes that name them, from '2' on; the last two are '0' and '1'.
constexpr const char* kPaths[] = {"/v1/chat/completions",
                                  "/v1/completions",
                                  "/v1/embeddings",
                                  "/v1/responses",
                                  "/v1/audio/transcriptions",
                                  "/tokenize",
                                  "/detokenize",
                                  "/rerank",
                                  "/score",
                                  "/classify",
                                  "/pooling",
                                  "/similarity",
                                  "/embed",
                                  "/embed_all",
                                  "/predict",
                                  "/decode",
                                  "/generate",
                                  "/generate_stream",
                                  "/api/chat",
                                  "/api/generate",
                                  "/api/embed",
                                  "/api/show",
                                  "/models/classify",
                                  "/",
                                  "/api/embeddings",
                                  "/v1/audio/translations",
                                  "/models/write",
                                  "/models/embed"};

const char* path_of(char byte) {
  constexpr int kCount = std::size(kPaths);
  return kPaths[(static_cast<uint8_t>(byte) + kCount * 2 - '2') % kCount];
}

[[noreturn]] void fail_with(const char* what, std::string_view sent, std::string_view answer) {
  std::fprintf(stderr, "%s\n---- sent\n%.*s\n---- answered\n%.*s\n", what, static_cast<int>(sent.size()), sent.data(),
               static_cast<int>(answer.size()), answer.data());
  std::abort();
}

// Each byte is a token; GPT-2's names of bytes stand for those that are no characters.
std::string tokenizer_of_bytes() {
  Json vocabulary = Json::object();
  vocabulary["<s>"] = 0, vocabulary["</s>"] = 1;
  int others = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool shown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = shown ? byte : others++;
    std::string name(1, static_cast<char>(code));
    if (code >= 128) name = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    vocabulary[name] = byte + 2;
  }
  const auto special = [](int id, const char* text) {
    return Json{{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return Json{{"version", "1.0"},
              {"added_tokens", Json::array({special(0, "<s>"), special(1, "</s>")})},
              {"normalizer", nullptr},
              {"pre_tokenizer", bytes},
              {"post_processor", nullptr},
              {"decoder", bytes},
              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}}
      .dump();
}

constexpr const char* kDecoder =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 258, "max_position_embeddings": 256,
  "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
  "intermediate_size": 24, "bos_token_id": 0, "eos_token_id": 1})";
constexpr const char* kEncoder =
    R"({"model_type": "bert", "architectures": ["ARCHITECTURE"], "vocab_size": 258, "max_position_embeddings": 256,
  "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24, "type_vocab_size": 2})";

void collect(Json& value, std::vector<Json*>& values) {
  values.push_back(&value);
  if (value.is_structured())
    for (Json& inner : value) collect(inner, values);
}

// Values as no client should send them.
Json odd_value(uint8_t which, const Json& old) {
  switch (which % 20) {
    case 0:
      return nullptr;
    case 1:
      return true;
    case 2:
      return -1;
    case 3:
      return 0;
    case 4:
      return 1e308;
    case 5:
      return INT64_MIN;
    case 6:
      return UINT64_MAX;
    case 7:
      return 0.5;
    case 8:
      return "";
    case 9:
      return std::string(300, 'a');
    case 10:
      return Json::array();
    case 11:
      return Json::object();
    case 12:
      return Json::array({old});
    case 13:
      return Json::array({old, old});
    case 14:
      return Json::object({{"text", old}});
    case 15:
      return "\xF0\x9F\x98\x80<s>\x01";
    case 16:
      return 2147483648;
    case 17:
      return Json::array({nullptr});
    case 18:
      return "none";
    default:
      return which;
  }
}

// What the edits before the last line feed make of the body behind it.
std::string edited(const std::string& bytes) {
  const size_t end = bytes.rfind('\n');
  if (end == std::string::npos) return bytes;
  Json body = Json::parse(bytes.begin() + static_cast<ptrdiff_t>(end + 1), bytes.end(), nullptr, false);
  if (body.is_discarded()) return bytes;
  for (size_t i = 0; i + 1 < end && i < 16; i += 2) {
    std::vector<Json*> values;
    collect(body, values);
    Json& old = *values[static_cast<uint8_t>(bytes[i]) % values.size()];
    old = odd_value(static_cast<uint8_t>(bytes[i + 1]), Json(old));
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Fuzzed {
 public:
  Fuzzed() {
    serve::ServeOptions options;
    options.http.port = 0;
    options.version = "fuzz";
    add(options, "write", kDecoder);
    add(options, "embed", encoder("BertModel"));
    add(options, "classify", encoder("BertForSequenceClassification"));
    server_ = std::make_unique<serve::Server>(options);
    server_->start();
    server_->load();
  }

  // What the server answers until it closes, or until the client has waited for a minute.
  std::string answer_to(const std::string& bytes, bool leaves) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval minute{60, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail_with("the server takes no connection", bytes, "");
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t some = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (some <= 0) break;  // refused by its head
      sent += static_cast<size_t>(some);
    }
    if (leaves) ::shutdown(socket, SHUT_WR);
    std::string answer;
    char part[4096];
    ssize_t count = 0;
    while ((count = ::recv(socket, part, sizeof part, 0)) > 0) answer.append(part, static_cast<size_t>(count));
    const bool late = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    ::close(socket);
    if (late) fail_with("no end after a minute", bytes, answer);
    return answer;
  }

 private:
  static std::string encoder(const char* architecture) {
    std::string config = kEncoder;
    const std::string_view place = "ARCHITECTURE";
    return config.replace(config.find(place), place.size(), architecture);
  }

  void add(serve::ServeOptions& options, const std::string& name, const std::string& config) {
    const std::string folder = (folder_ / name).string();
    Model::from_config(config)->save_pretrained(folder);
    folder_.write(name + "/tokenizer.json", tokenizer_of_bytes());
    folder_.write(name + "/tokenizer_config.json",
                  R"({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
                      "pad_token": "</s>"})");
    options.models.push_back({name, folder});
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<serve::Server> server_;
};

void check(const std::string& sent, const std::string& answer, bool answers) {
  if (answer.empty()) {
    if (answers) fail_with("no answer", sent, answer);
    return;
  }
  if (!answer.starts_with("HTTP/1.1 ")) fail_with("no HTTP", sent, answer);
  if (answer.compare(9, 3, "500") == 0) fail_with("answered by 500", sent, answer);
  const size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) fail_with("a head without end", sent, answer);
  const std::string_view head = std::string_view(answer).substr(0, end);
  if (!answers || head.find("application/json") == std::string_view::npos ||
      head.find("chunked") != std::string_view::npos)
    return;
  if (!Json::accept(answer.begin() + static_cast<ptrdiff_t>(end + 4), answer.end()))
    fail_with("a body that is no JSON", sent, answer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 20'000) return 0;
  static const Fuzzed server;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'r') {
    check(rest, server.answer_to(rest, true), false);
    return 0;
  }
  if (rest.empty()) return 0;
  const bool edits = data[0] == 'e';
  const char* path = path_of(edits ? rest[0] : static_cast<char>(data[0]));
  const std::string body = edits ? edited(rest.substr(1)) : rest;
  const char* type = body.starts_with("--b") ? "multipart/form-data; boundary=b" : "application/json";
  const std::string request = std::string("POST ") + path +
                              " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: " + type +
                              "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  check(request, server.answer_to(request, false), true);
  return 0;
}
