// SPDX-License-Identifier: Apache-2.0
// The model's pass over tokens of any texts, and the memory of their keys and values.
// Letters: N tokens of a pass, K of them whose scores are asked for, M blocks of the longest text, V vocabulary.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/drafts/draft_head.h"
#include "models/generative.h"
#include "models/nn/attention/paged_cache.h"
#include "transom/compile.h"
#include "work/generation/engine/engine_adapters.h"
#include "work/generation/engine/paged/kept/block_transfer.h"
#include "work/generation/seen_sources.h"

namespace transom {

// What the layers of the model keep of a token, in the type EngineOptions::cache_dtype, then what they keep of a text.
// Throws kUnsupported for a model whose attention cannot be paged.
std::vector<KeyValueShape> key_value_shapes(const GenerativeModel& model, ModelDType cache_dtype = ModelDType::kAuto);

// What a head for drafts keeps of a token, in the type of the model's keys.
KeyValueShape shape_of_head(const GenerativeModel& model, const DraftHead& head, DType dtype);

struct PagedPass {
  std::vector<int64_t> ids, positions, slots;  // [N]; of a model with several axes positions are [axes, N]
  std::vector<int32_t> block_tables, lengths;  // [N, M], [N]
  int64_t blocks = 0;                          // M
  int64_t scored = 1;                          // K: the last ones
  // [N, D] and [N]: where the second is not 0 the row stands in place of the token's embedding. Both empty: nowhere.
  std::vector<float> embeddings = {};
  std::vector<int64_t> is_given = {};
  // What tokens see of pictures beside them, and their keys and values. Of no blocks: no text has any.
  SourceNumbers sources = {};
  std::vector<Tensor> source_pools = {};
};

struct ProcessCommand;  // generation/processes/process_command.h
class Evaluator;        // tensor/evaluator.h

// Made within an EvaluatorScope, it computes by that evaluator; where this process leads, it tells the others.
class PagedProgram {
 public:
  // With `blocks` blocks, and room for `most` where that costs nothing (reserved_pools.h): programs outlive growth up
  // to there. The last of the shapes is the head's, where there is one: its keys lie in the blocks of the model's.
  PagedProgram(const GenerativeModel& model, std::vector<KeyValueShape> shapes, int64_t blocks, int64_t block_size,
               int64_t most, const DraftHead* head = nullptr);
  ~PagedProgram();
  PagedProgram(const PagedProgram&) = delete;
  PagedProgram& operator=(const PagedProgram&) = delete;
  // The scores [K, V] of what follows the last K tokens, until the next call. If it throws, all keys and values are
  // lost. `logarithms`: log_probabilities() are wanted too.
  std::span<float> run(const PagedPass& pass, const RequestAdapter& adapter, bool logarithms = false);
  // The logarithms [K, V] of the softmax of the last pass's scores as the device computes them, which are those of a
  // training pass to the bit. Empty where they were not asked for.
  std::span<const float> log_probabilities() const { return logarithms_; }
  // Of a model with a head: the hidden states [1, N, ...] of the last pass that the head reads. Undefined behind a pass
  // with rows in place of tokens.
  const Tensor& states() const { return states_; }
  // A pass of the head, whose ids are the tokens behind the places. DraftHead says what it reads and gives. If it
  // throws, all keys and values are lost.
  struct HeadResult {
    std::vector<float> scores, states;  // [K, rows], [K, E]
  };
  HeadResult run_head(const PagedPass& pass, const Tensor& states, bool first);
  // What the model makes of an input among the tokens, a row [D] for each of its places. If it throws, nothing is lost,
  // but over several processes all is, as after run().
  std::vector<float> embed(const AttachedInput& input, const RequestAdapter& adapter);
  // Likewise of an input that is read beside the tokens, not computed yet; of this process alone.
  AttendedPicture source_of(const AttachedInput& input, const RequestAdapter& adapter) const;
  // Programs for other adapters than those with these numbers go.
  void keep_adapters(const std::set<size_t>& used);
  // Makes room for so many more blocks; programs are compiled anew only where that is beyond what was reserved. If it
  // throws, there are as many as before, and all keys and values are lost.
  void grow(int64_t blocks);
  // Block `second` becomes equal to block `first` of each pair; none is in two pairs as the second, nor in one as the
  // first and in another as the second. If it throws, all keys and values are lost.
  void copy_blocks(const std::vector<std::pair<int32_t, int32_t>>& pairs);
  // Contents of blocks, of this process alone: BlockTransfer. If write_blocks throws, all keys and values are lost.
  std::vector<std::vector<std::byte>> read_blocks(std::span<const int32_t> blocks) const;
  void write_blocks(std::span<const int32_t> blocks, std::span<const std::vector<std::byte>> contents);
  // Why it can compute nothing any more: a pass over several processes has failed. Empty: it can.
  const std::string& failure() const { return failure_; }

 private:
  // What a program is traced for, besides the shapes of its arguments.
  struct StepKind {
    int64_t scored;
    std::string computing;  // its key, without the adapter
    size_t adapter;         // its number
    bool embeds;            // rows stand in place of tokens
    bool logarithms;        // of the softmax of the scores, behind these
    bool states;            // that a head reads, behind those
    size_t sources;         // pools of pictures beside the tokens
    auto operator<=>(const StepKind&) const = default;
  };
  std::vector<Tensor> traced(const StepKind& kind, const Computing& computing, const std::vector<Tensor>& in) const;
  // Numbers of a pass, where they are, if the host reaches them, else a copy.
  struct ReadNumbers {
    Tensor tensor;              // where the host reads them on the device
    std::vector<float> copied;  // elsewhere: megabytes, whose memory is not asked for at each step
  };
  static std::span<float> read(Tensor numbers, ReadNumbers& kept);
  void tell(const ProcessCommand& command);
  // Computes `outputs` and the new pools on all processes.
  void compute_together(std::span<const Tensor> outputs, const std::vector<Tensor>& pools);
  const CompiledFunction& step(const StepKind& kind, const Computing& computing);
  void make_pools();
  size_t pools() const { return pool_types(shapes_, 1, 1).size(); }
  size_t pools_of_model() const { return pools() - (head_ ? 2 : 0); }
  std::vector<Tensor> traced_head(bool first, int64_t scored, const std::vector<Tensor>& in) const;
  // With so many more blocks of zeros.
  Tensor larger_pool(size_t number, int64_t blocks) const;
  const GenerativeModel& model_;
  const DraftHead* head_;  // null: none
  std::vector<KeyValueShape> shapes_;
  int64_t blocks_, block_size_, most_;
  int64_t reserved_ = 0;       // blocks that the pools have room for; 0: as many as there are
  std::vector<Tensor> pools_;  // keys and values of each layer, then states
  ReadNumbers scores_, logs_;  // of the last pass
  std::span<const float> logarithms_;
  Tensor states_;
  Evaluator* evaluator_;  // null: this process alone
  std::string failure_;   // out of step with the other processes
  std::map<StepKind, CompiledFunction> steps_;
  std::map<std::pair<bool, int64_t>, CompiledFunction> heads_;  // by what it reads, and how many are scored
  std::optional<CompiledFunction> copy_;
  BlockTransfer transfer_;
};

}  // namespace transom
