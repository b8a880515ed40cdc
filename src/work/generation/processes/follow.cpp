// SPDX-License-Identifier: Apache-2.0
#include "work/generation/processes/follow.h"

#include "base/error.h"

namespace transom {
namespace {

using Kind = ProcessCommand::Kind;

std::vector<int64_t> numbers_of(const Decoding::Beginning& beginning) {
  return {beginning.prompts,  beginning.masks,      beginning.encoder_inputs,
          beginning.attached, beginning.max_length, beginning.use_cache};
}

void expect_same_beginning(const ProcessCommand& command, const std::vector<int64_t>& mine) {
  constexpr const char* kNames[] = {
      "prompts", "attention masks", "inputs of the encoder", "inputs among the tokens", "greatest length", "use_cache"};
  if (command.kind != Kind::kBegin || command.numbers.size() != mine.size()) refuse_command();
  for (size_t i = 0; i < mine.size(); ++i)
    if (command.numbers[i] != mine[i])
      fail("generate: expected the {} of rank 0, found others; give all processes the same inputs and options",
           kNames[i]);
}

GenerationOutput follow_search(Decoding& decoding, Evaluator& evaluator) {
  while (true) {
    ProcessCommand command = command_of(evaluator.from_leader(""));
    const std::vector<int64_t>& numbers = command.numbers;
    if (command.kind == Kind::kAnswer) return std::move(command.output);
    if (command.kind == Kind::kFailure) throw Error(command.error, command.text);
    if (command.kind == Kind::kRead && !numbers.empty())
      decoding.read({numbers.begin() + 1, numbers.end()}, numbers[0]);
    else if (command.kind == Kind::kRepeat && numbers.size() == 1) decoding.repeat(numbers[0]);
    else if (command.kind == Kind::kReorder) decoding.reorder(numbers);
    else refuse_command();
  }
}

// In the midst of a pass the others are in it too, do not listen, and find the error themselves.
void tell_failure(const Decoding& decoding, Evaluator& evaluator, ErrorKind kind, const std::string& text) {
  if (decoding.is_reading() || is_device_failure(kind)) return;
  evaluator.from_leader(bytes_of({.kind = Kind::kFailure, .error = kind, .text = text}));
}

}  // namespace

void tell_followers(const ProcessCommand& command) {
  Evaluator* evaluator = EvaluatorScope::current();
  if (evaluator && evaluator->leads()) evaluator->from_leader(bytes_of(command));
}

GenerationOutput search_together(Decoding& decoding, const std::vector<TokenIds>& rows,
                                 const std::function<GenerationOutput()>& search) {
  Evaluator* evaluator = EvaluatorScope::current();
  if (!evaluator) return search();
  const std::vector<int64_t> beginning = numbers_of(decoding.beginning(rows));
  const std::string leading = evaluator->from_leader(bytes_of({.kind = Kind::kBegin, .numbers = beginning}));
  if (!evaluator->leads()) {
    expect_same_beginning(command_of(leading), beginning);
    return follow_search(decoding, *evaluator);
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
  evaluator->from_leader(bytes_of({.kind = Kind::kAnswer, .output = output}));
  return output;
}

void follow_engine(const Model& model, Evaluator& evaluator) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (!writer) fail(ErrorKind::kUnsupported, "{} does not generate text", model.architecture());
  const EvaluatorScope scope(&evaluator);
  const NoGradient inference;
  std::unique_ptr<PagedProgram> program;
  while (true) {
    const ProcessCommand command = command_of(evaluator.from_leader(""));
    if (command.kind == Kind::kEnd) return;
    if (command.kind == Kind::kMake) {
      program = std::make_unique<PagedProgram>(
          *writer, key_value_shapes(*writer, OneOf<ModelDType>(name_of(command.cache_dtype))), command.blocks,
          command.block_size, command.blocks);
      continue;
    }
    if (!program) refuse_command();
    if (command.kind == Kind::kRun) program->run(command.pass, {});
    else if (command.kind == Kind::kEmbed) program->embed(command.attached, {});
    else if (command.kind == Kind::kGrow) program->grow(command.blocks);
    else if (command.kind == Kind::kCopy) program->copy_blocks(command.pairs);
    else refuse_command();
  }
}

}  // namespace transom
