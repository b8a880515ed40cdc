// SPDX-License-Identifier: Apache-2.0
#include "generation/following.h"

#include <bit>
#include <cstring>
#include <string>

#include "base/error.h"
#include "tensor/evaluator.h"

namespace transom {
namespace {

// A message: a byte that says what it is, then whole numbers of 64 bits, or of an error its kind and its text.
constexpr char kBegin = 'b', kEnd = 'e', kFailure = 'f';

char letter_of(DecodingStep step) {
  switch (step) {
    case DecodingStep::kRead:
      return 'r';
    case DecodingStep::kRepeat:
      return 'n';
    case DecodingStep::kReorder:
      break;
  }
  return 'o';
}

std::string message_of(char letter, std::span<const int64_t> numbers) {
  std::string message(1 + numbers.size_bytes(), letter);
  if (!numbers.empty()) std::memcpy(message.data() + 1, numbers.data(), numbers.size_bytes());
  return message;
}

[[noreturn]] void fail_at(const std::string& message) {
  fail(ErrorKind::kDevice, "generate: rank 0 sent a message of {} bytes that is none of generation: {}", message.size(),
       quoted(message));
}

std::vector<int64_t> numbers_of(const std::string& message) {
  if (message.size() % sizeof(int64_t) != 1) fail_at(message);
  std::vector<int64_t> numbers(message.size() / sizeof(int64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), message.data() + 1, message.size() - 1);
  return numbers;
}

// Rows, scores, tokens of a row, then the tokens, then the bits of the scores.
std::string message_of(const GenerationOutput& output) {
  const size_t length = output.sequences.empty() ? 0 : output.sequences[0].size();
  std::vector<int64_t> numbers{static_cast<int64_t>(output.sequences.size()),
                               static_cast<int64_t>(output.scores.size()), static_cast<int64_t>(length)};
  for (const TokenIds& row : output.sequences) {
    require(row.size() == length, "generate: rows of {} and {} tokens", length, row.size());
    numbers.insert(numbers.end(), row.begin(), row.end());
  }
  for (const double score : output.scores) numbers.push_back(std::bit_cast<int64_t>(score));
  return message_of(kEnd, numbers);
}

GenerationOutput output_of(const std::string& message) {
  constexpr size_t kHeader = 3;
  const std::vector<int64_t> numbers = numbers_of(message);
  if (numbers.size() < kHeader) fail_at(message);
  const auto rest = static_cast<int64_t>(numbers.size() - kHeader);
  const int64_t rows = numbers[0], scores = numbers[1], length = numbers[2];
  if (rows < 0 || scores < 0 || length < 0 || scores > rest || rows > rest || length > rest ||
      (length > 0 && rows > (rest - scores) / length) || rows * length != rest - scores)
    fail_at(message);
  GenerationOutput output;
  auto at = numbers.begin() + kHeader;
  for (int64_t row = 0; row < rows; ++row, at += length) output.sequences.emplace_back(at, at + length);
  for (; at != numbers.end(); ++at) output.scores.push_back(std::bit_cast<double>(*at));
  return output;
}

std::vector<int64_t> numbers_of(const Decoding::Beginning& beginning) {
  return {beginning.prompts,  beginning.masks,      beginning.encoder_inputs,
          beginning.attached, beginning.max_length, beginning.use_cache};
}

void expect_same_beginning(const std::string& message, const std::vector<int64_t>& mine) {
  constexpr const char* kNames[] = {
      "prompts", "attention masks", "inputs of the encoder", "inputs among the tokens", "greatest length", "use_cache"};
  if (message.empty() || message[0] != kBegin) fail_at(message);
  const std::vector<int64_t> leading = numbers_of(message);
  if (leading.size() != mine.size()) fail_at(message);
  for (size_t i = 0; i < mine.size(); ++i)
    if (leading[i] != mine[i])
      fail("generate: expected the {} of rank 0, found others; give all processes the same inputs and options",
           kNames[i]);
}

GenerationOutput follow(Decoding& decoding, Evaluator& evaluator) {
  while (true) {
    const std::string message = evaluator.from_leader("");
    if (message.empty()) fail_at(message);
    const char letter = message[0];
    if (letter == kEnd) return output_of(message);
    if (letter == kFailure && message.size() >= 2) throw Error(static_cast<ErrorKind>(message[1]), message.substr(2));
    const std::vector<int64_t> numbers = numbers_of(message);
    if (letter == letter_of(DecodingStep::kRead) && !numbers.empty())
      decoding.read({numbers.begin() + 1, numbers.end()}, numbers[0]);
    else if (letter == letter_of(DecodingStep::kRepeat) && numbers.size() == 1) decoding.repeat(numbers[0]);
    else if (letter == letter_of(DecodingStep::kReorder)) decoding.reorder(numbers);
    else fail_at(message);
  }
}

// In the midst of a pass the others are in it too, do not listen, and find the error themselves.
void tell_failure(const Decoding& decoding, Evaluator& evaluator, ErrorKind kind, const std::string& text) {
  if (decoding.is_reading() || is_device_failure(kind)) return;
  evaluator.from_leader(std::string{kFailure, static_cast<char>(kind)} + text);
}

}  // namespace

void tell_followers(DecodingStep step, std::span<const int64_t> numbers) {
  Evaluator* evaluator = EvaluatorScope::current();
  if (evaluator && evaluator->leads()) evaluator->from_leader(message_of(letter_of(step), numbers));
}

GenerationOutput search_together(Decoding& decoding, const std::vector<TokenIds>& rows,
                                 const std::function<GenerationOutput()>& search) {
  Evaluator* evaluator = EvaluatorScope::current();
  if (!evaluator) return search();
  const std::vector<int64_t> beginning = numbers_of(decoding.beginning(rows));
  const std::string leading = evaluator->from_leader(message_of(kBegin, beginning));
  if (!evaluator->leads()) {
    expect_same_beginning(leading, beginning);
    return follow(decoding, *evaluator);
  }
  GenerationOutput output;
  try {
    output = search();
  } catch (const Error& error) {
    tell_failure(decoding, *evaluator, error.kind(), error.what());
    throw;
  } catch (const std::exception& error) {  // of a caller's streamer or logits processor
    tell_failure(decoding, *evaluator, ErrorKind::kInput, error.what());
    throw;
  }
  evaluator->from_leader(message_of(output));
  return output;
}

}  // namespace transom
