// SPDX-License-Identifier: Apache-2.0
// How long a tokenizer takes for texts, one by one and as a batch. Answers on standard input, so that it can take turns
// with others (bench/peers/tokenizer_race.py):
//
//   tokenizer_speed DIRECTORY TEXTS     DIRECTORY with tokenizer.json; TEXTS: a JSON array of strings
//   single | batch                      {"seconds": ..., "tokens": ...}
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/files/files.h"
#include "transom/error.h"
#include "transom/tokenizer.h"

int main(int count, char** arguments) {
  try {
    if (count != 3) throw transom::Error(transom::ErrorKind::kInput, "expected a directory and a file of texts");
    const auto tokenizer = transom::Tokenizer::from_pretrained(arguments[1]);
    const auto texts = nlohmann::json::parse(transom::read_file(arguments[2])).get<std::vector<std::string>>();
    std::cout << "ready" << std::endl;
    for (std::string mode; std::getline(std::cin, mode);) {
      size_t tokens = 0;
      const auto start = std::chrono::steady_clock::now();
      if (mode == "batch") {
        for (const auto& encoding : tokenizer.encode_batch(texts)) tokens += encoding.size();
      } else {
        for (const std::string& text : texts) tokens += tokenizer.encode(text).size();
      }
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      std::cout << nlohmann::json{{"seconds", seconds.count()}, {"tokens", tokens}} << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
