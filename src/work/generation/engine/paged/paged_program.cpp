// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/paged_program.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "graph/ops/computing.h"
#include "graph/ops/products/packed_matrix.h"
#include "runtime/device/device.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/evaluator.h"
#include "runtime/tensor/host_values.h"
#include "transom/interrupt.h"
#include "transom/ops.h"
#include "work/generation/engine/paged/reserved_pools.h"
#include "work/generation/engine/paged/step_shape.h"
#include "work/generation/processes/process_command.h"

namespace transom {
namespace {

// Before the pools: ids, positions, slots, block tables, lengths; then rows in place of tokens, and where they stand.
constexpr size_t kInputs = 5, kInputsOfRows = 2;

size_t inputs_before_pools(bool embeds) { return kInputs + (embeds ? kInputsOfRows : 0); }

// [1, N], of a model with several axes [axes, 1, N].
Shape shape_of_positions(int64_t axes, int64_t tokens) { return axes == 1 ? Shape{1, tokens} : Shape{axes, 1, tokens}; }

// The logits [K, V] of the last of the tokens.
Tensor logits_of(const GenerativeModel& model, const PassInputs& pass, int64_t scored, KeyValueCache& cache,
                 const Computing& computing) {
  ForwardContext context{.cache = &cache, .computing = computing};
  return reshape(model.last_logits(pass, scored, context), {scored, -1});
}

// A row's bits do not depend on the tokens that are computed with it.
Computing apart_with(const AdapterSet* adapters) { return {.batch_invariant = true, .adapters = adapters}; }

// Whether products of the model round their inputs to 8 bits, beside which a key of 16 bits is exact.
bool rounds_inputs(const GenerativeModel& model) {
  return model.computing().int8 || std::ranges::any_of(model.frozen(), [](const std::shared_ptr<Parameter>& parameter) {
           return parameter->packed && parameter->packed->activations.starts_with("int8");
         });
}

}  // namespace

std::vector<KeyValueShape> key_value_shapes(const GenerativeModel& model, const std::string& cache_dtype) {
  const NoGradient inference;
  PagedCache cache;
  const Tensor one = zeros({1, 1}, DType::kInt64);
  logits_of(model, {one, zeros(shape_of_positions(model.position_axes(), 1), DType::kInt64)}, 1, cache,
            apart_with(nullptr));
  std::vector<KeyValueShape> shapes = cache.shapes();
  shapes.insert(shapes.end(), cache.state_shapes().begin(), cache.state_shapes().end());
  if (shapes.empty()) fail(ErrorKind::kUnsupported, "{} keeps no keys", model.architecture());
  for (KeyValueShape& shape : shapes)
    if (shape.is_state()) continue;
    else if (cache_dtype != "auto") shape.dtype = parse_dtype(cache_dtype);
    else if (shape.dtype == DType::kFloat32 && rounds_inputs(model)) shape.dtype = DType::kFloat16;
  return shapes;
}

PagedProgram::PagedProgram(const GenerativeModel& model, std::vector<KeyValueShape> shapes, int64_t blocks,
                           int64_t block_size, int64_t most)
    : model_(model),
      shapes_(std::move(shapes)),
      blocks_(blocks),
      block_size_(block_size),
      most_(most),
      evaluator_(EvaluatorScope::current()) {
  tell({.kind = ProcessCommand::Kind::kMake,
        .blocks = blocks,
        .block_size = block_size,
        .cache_dtype = shapes_.front().is_state() ? DType::kFloat32 : shapes_.front().dtype});
  make_pools();
}

PagedProgram::~PagedProgram() {
  try {
    tell({.kind = ProcessCommand::Kind::kEnd});
  } catch (const std::exception&) {  // the others end by themselves where this one is lost
  }
}

void PagedProgram::tell(const ProcessCommand& command) {
  if (!evaluator_ || !evaluator_->leads()) return;
  if (!failure_.empty() && command.kind != ProcessCommand::Kind::kEnd) fail(ErrorKind::kDevice, "{}", failure_);
  evaluator_->from_leader(bytes_of(command));
}

void PagedProgram::compute_together(std::span<const Tensor> outputs, const std::vector<Tensor>& pools) {
  const InterruptScope completed{std::stop_token()};  // the others compute already
  try {
    pools_ = evaluator_->evaluate(outputs, pools);
  } catch (const std::exception& error) {
    failure_ = fmt::format("a pass failed, and the processes of the model are out of step since; restart them all ({})",
                           error.what());
    throw;
  }
}

void PagedProgram::make_pools() {
  pools_.clear();
  for (reserved_ = evaluator_ ? 0 : most_; reserved_ > blocks_; reserved_ /= 2)
    if (pools_ = reserve_pools(pool_types(shapes_, reserved_, block_size_)); !pools_.empty()) {
      clear_rows(pools_, 0, blocks_, reserved_);
      return;
    }
  reserved_ = 0;
  for (const Type& type : pool_types(shapes_, blocks_, block_size_)) {
    pools_.push_back(zeros(type.shape, type.dtype));
    eval({pools_.back()});
  }
}

Tensor PagedProgram::larger_pool(size_t number, int64_t blocks) const {
  const Type more = pool_types(shapes_, blocks, block_size_).at(number);
  return concatenate({pools_.at(number), zeros(more.shape, more.dtype)}, 0);
}

std::vector<Tensor> PagedProgram::traced(const StepKind& kind, const Computing& computing,
                                         const std::vector<Tensor>& in) const {
  PassInputs pass{in[0], in[1]};
  if (kind.embeds) pass.embeddings = in[kInputs], pass.is_given = in[kInputs + 1];
  std::vector<KeysAndValues> pools;
  std::vector<Tensor> states;
  size_t next = inputs_before_pools(kind.embeds);
  for (const KeyValueShape& shape : shapes_)
    if (shape.is_state()) states.push_back(in[next++]);
    else pools.push_back({in[next], in[next + 1]}), next += 2;
  PagedCache cache(std::move(pools), block_size_, {.slots = in[2], .block_tables = in[3], .lengths = in[4]},
                   std::move(states));
  std::vector<Tensor> results{logits_of(model_, pass, kind.scored, cache, computing)};
  if (kind.logarithms) results.push_back(log_softmax(results[0], kAsGiven));
  for (const KeysAndValues& pool : cache.pools()) results.push_back(pool.keys), results.push_back(pool.values);
  results.insert(results.end(), cache.states().begin(), cache.states().end());
  return results;
}

const CompiledFunction& PagedProgram::step(const StepKind& kind, const Computing& computing) {
  const auto known = steps_.find(kind);
  if (known != steps_.end()) return known->second;
  const auto trace = [this, kind, computing](const std::vector<Tensor>& in) { return traced(kind, computing, in); };
  CompileOptions options{.name = "engine step", .capture = false, .donated = {}};
  for (size_t i = 0; i < pools(); ++i) options.donated.push_back(inputs_before_pools(kind.embeds) + i);
  return steps_.emplace(kind, compile(trace, std::move(options))).first->second;
}

void PagedProgram::keep_adapters(const std::set<size_t>& used) {
  std::erase_if(steps_,
                [&](const auto& step) { return step.first.adapter != 0 && !used.contains(step.first.adapter); });
}

std::vector<float> PagedProgram::embed(const AttachedInput& input, const RequestAdapter& adapter) {
  const NoGradient inference;
  ForwardContext context{.computing = {.adapters = adapter.set.get()}};
  const Tensor rows = model_.embed(input, context);
  tell({.kind = ProcessCommand::Kind::kEmbed, .attached = input});
  if (evaluator_) compute_together({&rows, 1}, pools_);
  return rows.to_vector<float>();
}

void PagedProgram::grow(int64_t blocks) {
  const NoGradient inference;
  if (evaluator_) {
    tell({.kind = ProcessCommand::Kind::kGrow, .blocks = blocks});
    std::vector<Tensor> larger;
    for (size_t i = 0; i < pools_.size(); ++i) larger.push_back(larger_pool(i, blocks));
    pools_.clear();
    compute_together({}, larger);
    blocks_ += blocks;
    return;
  }
  // What is reserved may hold anything; it becomes part of the cache.
  const int64_t before = blocks_, grown = std::min(blocks_ + blocks, std::max(reserved_, blocks_));
  clear_rows(pools_, blocks_, grown, std::max(reserved_, blocks_));
  blocks -= grown - blocks_;
  blocks_ = grown;
  if (blocks == 0) return;
  // One after the other, so that never more than one of them is there twice.
  try {
    for (size_t i = 0; i < pools_.size(); ++i) {
      Tensor larger = larger_pool(i, blocks);
      eval({larger});
      pools_[i] = std::move(larger);
    }
  } catch (...) {
    pools_.clear();  // those that have grown leave no memory to turn them back
    blocks_ = before;
    throw;
  }
  blocks_ += blocks;
  reserved_ = 0;
  // Pools of the old size never come again.
  for (const auto& [key, function] : steps_) function.forget();
  steps_.clear();
  if (copy_) copy_->forget();
}

void PagedProgram::copy_blocks(const std::vector<std::pair<int32_t, int32_t>>& pairs) {
  const NoGradient inference;
  if (pairs.empty() || pools_.empty()) return;
  // Rows of keys and values, and blocks of states.
  const auto trace = [shapes = shapes_](const std::vector<Tensor>& in) {
    std::vector<Tensor> results;
    size_t next = 4;
    const auto copy = [&](size_t from) {
      results.push_back(scatter(in[next], in[from + 1], gather(in[next], in[from], 0)));
      ++next;
    };
    for (const KeyValueShape& shape : shapes)
      if (shape.is_state()) copy(2);
      else copy(0), copy(0);
    return results;
  };
  tell({.kind = ProcessCommand::Kind::kCopy, .pairs = pairs});
  if (!copy_ && !evaluator_) {
    CompileOptions options{.name = "copy of blocks", .capture = false, .donated = {}};
    for (size_t i = 0; i < pools(); ++i) options.donated.push_back(4 + i);
    copy_ = compile(trace, std::move(options));
  }
  const int64_t count = rounded_tokens(static_cast<int64_t>(pairs.size()));
  std::vector<Tensor> arguments;
  for (const int64_t size : {block_size_, int64_t{1}}) {
    std::vector<int64_t> from(static_cast<size_t>(count * size), 0), to(from.size(), -1);
    size_t place = 0;
    for (const auto& [first, second] : pairs)
      for (int64_t i = 0; i < size; ++i, ++place) from[place] = first * size + i, to[place] = second * size + i;
    arguments.push_back(Tensor::from(from, {count * size}));
    arguments.push_back(Tensor::from(to, {count * size}));
  }
  std::move(pools_.begin(), pools_.end(), std::back_inserter(arguments));
  pools_.clear();
  if (evaluator_) return compute_together({}, trace(arguments));
  pools_ = (*copy_)(std::move(arguments));
  eval(pools_);
}

std::span<float> PagedProgram::read(Tensor numbers, ReadNumbers& kept) {
  if (numbers.dtype() != DType::kFloat32 || is_in_host_memory(numbers)) return kept.copied = numbers.to_vector<float>();
  const auto count = static_cast<size_t>(numbers.size());
  const std::shared_ptr<Buffer> buffer = buffer_of(numbers);
  if (std::byte* const data = buffer->is_writable() ? buffer->host_pointer() : nullptr) {
    buffer->device().synchronize();
    kept.tensor = std::move(numbers);
    return {reinterpret_cast<float*>(data), count};
  }
  kept.copied.resize(count);
  buffer->read(std::as_writable_bytes(std::span(kept.copied)));
  return kept.copied;
}

std::span<float> PagedProgram::run(const PagedPass& pass, const RequestAdapter& adapter, bool logarithms) {
  const NoGradient inference;
  scores_.tensor = {}, logs_.tensor = {}, logarithms_ = {};
  tell({.kind = ProcessCommand::Kind::kRun, .pass = pass});
  if (pools_.empty()) make_pools();
  const auto tokens = static_cast<int64_t>(pass.ids.size());
  const Computing computing = apart_with(adapter.set.get());
  const StepKind kind{pass.scored, key_of(apart_with(nullptr)).value(), adapter.number, !pass.embeddings.empty(),
                      logarithms && !evaluator_};
  std::vector<Tensor> arguments{Tensor::from(pass.ids, {1, tokens}),
                                Tensor::from(pass.positions, shape_of_positions(model_.position_axes(), tokens)),
                                Tensor::from(pass.slots, {tokens}),
                                Tensor::from(pass.block_tables, {tokens, pass.blocks}),
                                Tensor::from(pass.lengths, {tokens})};
  if (kind.embeds) {
    arguments.push_back(Tensor::from(pass.embeddings, {1, tokens, model_.embedding_width()}));
    arguments.push_back(Tensor::from(pass.is_given, {1, tokens}));
  }
  std::move(pools_.begin(), pools_.end(), std::back_inserter(arguments));
  pools_.clear();
  if (evaluator_) {
    const std::vector<Tensor> together = traced(kind, computing, arguments);
    compute_together({together.data(), 1}, {together.begin() + 1, together.end()});
    const std::span<float> scores = read(together[0], scores_);
    if (logarithms) {  // who leads asks, and has the scores
      const auto V = static_cast<int64_t>(scores.size()) / pass.scored;
      const Tensor rows = Tensor::from(std::span<const float>(scores), {pass.scored, V});
      logarithms_ = read(log_softmax(rows, kAsGiven), logs_);
    }
    return scores;
  }
  std::vector<Tensor> results = step(kind, computing)(std::move(arguments));
  const auto pools = results.begin() + (kind.logarithms ? 2 : 1);
  pools_.assign(std::make_move_iterator(pools), std::make_move_iterator(results.end()));
  if (kind.logarithms) logarithms_ = read(std::move(results[1]), logs_);
  return read(std::move(results[0]), scores_);
}

}  // namespace transom
