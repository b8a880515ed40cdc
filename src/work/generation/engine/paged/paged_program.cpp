// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/paged_program.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "graph/ops/computing.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/loading/input_names.h"
#include "models/shared/decoder.h"
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

// Before the pools: ids, positions, slots, block tables, lengths; then rows in place of tokens, and where they stand;
// then what tokens see of pictures beside them, and the pools of these.
constexpr size_t kInputs = 5, kInputsOfRows = 2, kInputsOfSources = 3;

size_t inputs_before_pools(bool embeds, size_t sources) {
  return kInputs + (embeds ? kInputsOfRows : 0) + (sources > 0 ? kInputsOfSources + sources : 0);
}

// Of a pass with so many pools of pictures, whose inputs begin at `next`.
SeenSources seen_sources(const std::vector<Tensor>& in, size_t next, size_t sources) {
  SeenSources seen{.layers = {}, .tables = in[next], .lengths = in[next + 1], .reads = in[next + 2]};
  next += kInputsOfSources;
  for (size_t i = 0; i < sources; i += 2) seen.layers.push_back({in[next + i], in[next + i + 1]});
  return seen;
}

// [1, N], of a model with several axes [axes, 1, N].
Shape shape_of_positions(int64_t axes, int64_t tokens) { return axes == 1 ? Shape{1, tokens} : Shape{axes, 1, tokens}; }

// The logits [K, V] of the last of the tokens.
Tensor logits_of(const GenerativeModel& model, const PassInputs& pass, int64_t scored, KeyValueCache& cache,
                 const Computing& computing) {
  ForwardContext context{.cache = &cache, .computing = computing};
  return reshape(model.last_logits(pass, scored, context), {scored, -1});
}

// The same, and the hidden states of the numbers that a head reads, side by side: f32 [1, N, ...].
std::pair<Tensor, Tensor> logits_and_states(const GenerativeModel& model, const PassInputs& pass, int64_t scored,
                                            const DraftHead& head, KeyValueCache& cache, const Computing& computing) {
  ForwardContext context{
      .output_hidden_states = true, .cache = &cache, .logits_to_keep = scored, .computing = computing};
  NamedTensors inputs{{"input_ids", pass.input_ids}};
  if (std::ranges::count(input_names_of(model), "position_ids") > 0) inputs.set("position_ids", pass.position_ids);
  const NamedTensors outputs = model.forward(inputs, context);
  std::vector<Tensor> states;
  for (const size_t number : head.reads()) {
    const Tensor found = outputs.find("hidden_states." + std::to_string(number));
    if (!found.defined())
      fail(ErrorKind::kUnsupported, "drafts: a head reads hidden_states.{}, which {} does not give", number,
           model.architecture());
    states.push_back(cast(found, DType::kFloat32));
  }
  return {reshape(cast(outputs.at("logits"), DType::kFloat32), {scored, -1}), concatenate(states, 2)};
}

// A row's bits do not depend on the tokens that are computed with it.
Computing apart_with(const AdapterSet* adapters) { return {.batch_invariant = true, .adapters = adapters}; }

Computing computing_of_head(const GenerativeModel& model) {
  Computing computing = model.computing();
  computing.batch_invariant = true;
  return computing;
}

int64_t width_of_states(const GenerativeModel& model) { return body_of(model).traits().width; }

// Whether products of the model round their inputs to 8 bits, beside which a key of 16 bits is exact.
bool rounds_inputs(const GenerativeModel& model) {
  return model.computing().int8 || std::ranges::any_of(model.frozen(), [](const std::shared_ptr<Parameter>& parameter) {
           return parameter->packed && parameter->packed->activations.starts_with("int8");
         });
}

}  // namespace

std::vector<KeyValueShape> key_value_shapes(const GenerativeModel& model, ModelDType cache_dtype) {
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
    else if (const std::optional<DType> given = dtype_of(cache_dtype)) shape.dtype = *given;
    else if (shape.dtype == DType::kFloat32 && rounds_inputs(model)) shape.dtype = DType::kFloat16;
  return shapes;
}

KeyValueShape shape_of_head(const GenerativeModel& model, const DraftHead& head, DType dtype) {
  if (model.position_axes() > 1)
    fail(ErrorKind::kUnsupported, "drafts: {} tells places by {} numbers, for which heads are not carried out",
         model.architecture(), model.position_axes());
  const NoGradient inference;
  PagedCache of_model, cache;
  ForwardContext context{.cache = &cache, .computing = computing_of_head(model)};
  const Tensor one = zeros({1, 1}, DType::kInt64);
  logits_and_states(model, {one, one}, 1, head, of_model, apart_with(nullptr));  // whether it gives them
  const int64_t width = static_cast<int64_t>(head.reads().size()) * width_of_states(model);
  head(one, one, zeros({1, 1, width}), true, 1, context);
  if (cache.shapes().size() != 1 || !cache.state_shapes().empty())
    fail(ErrorKind::kUnsupported, "drafts: expected a head with one layer of attention, found {}",
         cache.shapes().size() + cache.state_shapes().size());
  KeyValueShape shape = cache.shapes()[0];
  shape.dtype = dtype;
  return shape;
}

PagedProgram::PagedProgram(const GenerativeModel& model, std::vector<KeyValueShape> shapes, int64_t blocks,
                           int64_t block_size, int64_t most, const DraftHead* head)
    : model_(model),
      head_(head),
      shapes_(std::move(shapes)),
      blocks_(blocks),
      block_size_(block_size),
      most_(most),
      evaluator_(EvaluatorScope::current()),
      transfer_(shapes_, block_size) {
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
  size_t next = inputs_before_pools(kind.embeds, kind.sources);
  for (const KeyValueShape& shape : std::span(shapes_).first(shapes_.size() - (head_ ? 1 : 0)))
    if (shape.is_state()) states.push_back(in[next++]);
    else pools.push_back({in[next], in[next + 1]}), next += 2;
  PagedCache cache(std::move(pools), block_size_, {.slots = in[2], .block_tables = in[3], .lengths = in[4]},
                   std::move(states));
  if (kind.sources > 0) cache.sources = seen_sources(in, inputs_before_pools(kind.embeds, 0), kind.sources);
  std::vector<Tensor> results;
  Tensor hidden;
  if (kind.states) {
    auto [logits, read] = logits_and_states(model_, pass, kind.scored, *head_, cache, computing);
    results.push_back(std::move(logits));
    hidden = std::move(read);
  } else {
    results.push_back(logits_of(model_, pass, kind.scored, cache, computing));
  }
  if (kind.logarithms) results.push_back(log_softmax(results[0], kAsGiven));
  if (kind.states) results.push_back(hidden);
  for (const KeysAndValues& pool : cache.pools()) results.push_back(pool.keys), results.push_back(pool.values);
  results.insert(results.end(), cache.states().begin(), cache.states().end());
  return results;
}

const CompiledFunction& PagedProgram::step(const StepKind& kind, const Computing& computing) {
  const auto known = steps_.find(kind);
  if (known != steps_.end()) return known->second;
  const auto trace = [this, kind, computing](const std::vector<Tensor>& in) { return traced(kind, computing, in); };
  CompileOptions options{.name = "engine step", .capture = false, .donated = {}};
  for (size_t i = 0; i < pools_of_model(); ++i)
    options.donated.push_back(inputs_before_pools(kind.embeds, kind.sources) + i);
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

AttendedPicture PagedProgram::source_of(const AttachedInput& input, const RequestAdapter& adapter) const {
  const NoGradient inference;
  ForwardContext context{.computing = {.adapters = adapter.set.get()}};
  return model_.source_of(input, context);
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
  for (const auto& [key, function] : heads_) function.forget();
  heads_.clear();
  if (copy_) copy_->forget();
  transfer_.forget();
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

std::vector<std::vector<std::byte>> PagedProgram::read_blocks(std::span<const int32_t> blocks) const {
  const NoGradient inference;
  return transfer_.read(pools_, blocks);
}

void PagedProgram::write_blocks(std::span<const int32_t> blocks, std::span<const std::vector<std::byte>> contents) {
  const NoGradient inference;
  if (pools_.empty()) make_pools();
  pools_ = transfer_.write(std::exchange(pools_, {}), blocks, contents);
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
  scores_.tensor = {}, logs_.tensor = {}, logarithms_ = {}, states_ = {};
  tell({.kind = ProcessCommand::Kind::kRun, .pass = pass});
  if (pools_.empty()) make_pools();
  const auto tokens = static_cast<int64_t>(pass.ids.size());
  const Computing computing = apart_with(adapter.set.get());
  const StepKind kind{pass.scored,
                      key_of(apart_with(nullptr)).value(),
                      adapter.number,
                      !pass.embeddings.empty(),
                      logarithms && !evaluator_,
                      head_ && pass.embeddings.empty(),
                      pass.sources.blocks > 0 ? pass.source_pools.size() : 0};
  std::vector<Tensor> arguments{Tensor::from(pass.ids, {1, tokens}),
                                Tensor::from(pass.positions, shape_of_positions(model_.position_axes(), tokens)),
                                Tensor::from(pass.slots, {tokens}),
                                Tensor::from(pass.block_tables, {tokens, pass.blocks}),
                                Tensor::from(pass.lengths, {tokens})};
  if (kind.embeds) {
    arguments.push_back(Tensor::from(pass.embeddings, {1, tokens, model_.embedding_width()}));
    arguments.push_back(Tensor::from(pass.is_given, {1, tokens}));
  }
  if (kind.sources > 0) {
    arguments.push_back(Tensor::from(pass.sources.tables, {tokens, pass.sources.blocks}));
    arguments.push_back(Tensor::from(pass.sources.lengths, {tokens}));
    arguments.push_back(Tensor::from(pass.sources.reads, {tokens}));
    arguments.insert(arguments.end(), pass.source_pools.begin(), pass.source_pools.end());
  }
  const auto of_head = pools_.begin() + static_cast<ptrdiff_t>(pools_of_model());
  std::vector<Tensor> kept(std::make_move_iterator(of_head), std::make_move_iterator(pools_.end()));
  std::move(pools_.begin(), of_head, std::back_inserter(arguments));
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
  const auto pools = results.begin() + 1 + kind.logarithms + kind.states;
  pools_.assign(std::make_move_iterator(pools), std::make_move_iterator(results.end()));
  std::ranges::move(kept, std::back_inserter(pools_));
  if (kind.states) states_ = std::move(results[kind.logarithms ? 2 : 1]);
  if (kind.logarithms) logarithms_ = read(std::move(results[1]), logs_);
  return read(std::move(results[0]), scores_);
}

// ---- a head for drafts

std::vector<Tensor> PagedProgram::traced_head(bool first, int64_t scored, const std::vector<Tensor>& in) const {
  PagedCache cache({{in[6], in[7]}}, block_size_, {.slots = in[2], .block_tables = in[3], .lengths = in[4]});
  ForwardContext context{.cache = &cache, .computing = computing_of_head(model_)};
  const DraftHead::Predicted made = (*head_)(in[0], in[1], in[5], first, scored, context);
  return {made.logits, made.states, cache.pools()[0].keys, cache.pools()[0].values};
}

PagedProgram::HeadResult PagedProgram::run_head(const PagedPass& pass, const Tensor& states, bool first) {
  const NoGradient inference;
  if (pools_.empty()) make_pools();
  const auto tokens = static_cast<int64_t>(pass.ids.size());
  const auto of_head = pools_.begin() + static_cast<ptrdiff_t>(pools_of_model());
  std::vector<Tensor> arguments{
      Tensor::from(pass.ids, {1, tokens}),  Tensor::from(pass.positions, {1, tokens}),
      Tensor::from(pass.slots, {tokens}),   Tensor::from(pass.block_tables, {tokens, pass.blocks}),
      Tensor::from(pass.lengths, {tokens}), states};
  std::move(of_head, pools_.end(), std::back_inserter(arguments));
  std::vector<Tensor> kept(std::make_move_iterator(pools_.begin()), std::make_move_iterator(of_head));
  pools_.clear();
  const std::pair kind(first, pass.scored);
  auto known = heads_.find(kind);
  if (known == heads_.end()) {
    const int64_t scored = pass.scored;
    const auto trace = [this, first, scored](const std::vector<Tensor>& in) { return traced_head(first, scored, in); };
    known =
        heads_.emplace(kind, compile(trace, {.name = "head for drafts", .capture = false, .donated = {6, 7}})).first;
  }
  std::vector<Tensor> results = known->second(std::move(arguments));
  pools_ = std::move(kept);
  pools_.push_back(std::move(results[2])), pools_.push_back(std::move(results[3]));
  eval(pools_);
  return {results[0].to_vector<float>(), results[1].to_vector<float>()};
}

}  // namespace transom
