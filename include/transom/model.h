// SPDX-License-Identifier: Apache-2.0
// Models: architectures of Transformers, loaded from and saved to its checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transom/computing.h"
#include "transom/precision.h"
#include "transom/tensor.h"

namespace transom {

class Adaptation;       // models/loading/adapters/adaptation.h
class CompiledForward;  // models/compiled_forward.h
class Config;           // config.h
class KeyValueCache;    // nn/attention/cache.h
struct PackedMatrix;    // graph/ops/products/packed_matrix.h
class WeightAdapter;    // nn/weight_adapter.h

// One tensor of a model, by its name in the checkpoint. Layers share it with the model: a new value is that of all of
// them.
struct Parameter {
  std::string name;
  Tensor value;
  bool of_layer_norm = false;  // Trainer applies no weight decay to it
  // Whether it is the weight of a linear layer, [out, in] or [in, out].
  enum class Use { kOther, kLinear, kTransposedLinear } use = Use::kOther;
  bool is_table = false;                         // [count, width]: its rows are looked up by ids
  std::shared_ptr<const WeightAdapter> adapter;  // what PEFT puts beside it; null: nothing
  std::shared_ptr<const PackedMatrix> packed;    // the weight in a block format; `value` is then empty
};

// Tensors by the names of Transformers' arguments and outputs, in order.
class NamedTensors {
 public:
  using Items = std::vector<std::pair<std::string, Tensor>>;
  NamedTensors() = default;
  NamedTensors(std::initializer_list<Items::value_type> items) : items_(items) {}

  Tensor find(std::string_view name) const;       // an empty Tensor where there is none
  const Tensor& at(std::string_view name) const;  // throws if there is none; the error lists the names
  void set(std::string name, Tensor tensor);
  const Items& items() const& { return items_; }
  Items items() && { return std::move(items_); }
  bool empty() const { return items_.empty(); }

 private:
  Items items_;
};

// A new value of a buffer, computed by a forward pass in training.
struct BufferUpdate {
  std::shared_ptr<Parameter> buffer;
  Tensor value;
};

class LossDivisors;  // models/nn/losses/loss_divisors.h
struct TextsInRows;  // models/nn/attention/texts_in_rows.h
struct TokenLoss;    // models/nn/losses/token_loss.h

// How a forward pass is carried out.
struct ForwardContext {
  bool training = false;  // dropout is on
  // f32 []: what a loss over tokens is divided by, in place of the number of its own labels; Transformers'
  // num_items_in_batch. Empty: the mean.
  Tensor num_items_in_batch;
  Tensor dropout_key;  // i64 [2] = (seed, offset), an input of the graph; each dropout draws from its own offsets
  bool gradient_checkpointing = false;
  bool output_hidden_states = false;
  bool return_loss = false;               // of models whose loss needs no labels (CLIP)
  bool interpolate_pos_encoding = false;  // images of another size than the position embeddings are made for
  // Receives the new values of buffers (running statistics of batch norms); null: they are dropped.
  std::vector<BufferUpdate>* buffer_updates = nullptr;
  // What the means of a loss divide by, where the batch is a part of a larger one; null: by their own counts.
  LossDivisors* loss_divisors = nullptr;
  int64_t dropouts = 0;            // number of draws of this pass so far
  KeyValueCache* cache = nullptr;  // of incremental decoding: keys and values of earlier tokens; this pass adds its own
  int64_t logits_to_keep = 0;      // of language models: logits of the last positions alone; 0: of all
  // Several texts in a row, which the input seq_idx tells of: Model::forward sets it. Null: each row is one text.
  const TextsInRows* texts = nullptr;
  // How the loss over tokens of a language model is made, and what is kept of it; null: of all logits, which are kept.
  const TokenLoss* token_loss = nullptr;
  Computing computing;  // Model::forward adds what the model computes under
};

struct LoadOptions {
  std::string task;  // pipeline name that chooses the head; empty: the architecture that config.json names
  std::optional<int64_t> num_labels;
  std::vector<std::string> labels;  // names of the classes, in the order of their ids
  std::string problem_type;         // of sequence classification; empty: as config.json says, or found from the labels
  bool ignore_mismatched_sizes = false;
  uint64_t seed = 42;  // of parameters that the checkpoint lacks
  // The type of the weights, in which the model computes. Tensors that the file holds in this type are read where the
  // file is mapped, without a copy.
  OneOf<ModelDType> dtype = ModelDType::kFloat32;
  OneOf<Quantization> quantization = Quantization::kNone;
  OneOf<Activations> activations = Activations::kFloat32;
  // Of a directory of PEFT: keeps its adapters beside the frozen weights; only adapters are then trained and saved.
  // Otherwise they are merged into the weights.
  bool keep_adapters = false;
  // Weights of linear layers and tables of the vocabulary that the file holds in a shorter float type than `dtype` are
  // left as they lie in the file, and cast where they are read: less memory and a faster start. For models that are
  // only computed with, in lazy mode on the cpu; elsewhere they are converted as ever.
  bool keep_stored_types = false;
  // A row's bits do not depend on the rows beside it, where the device can give them so; see Computing.
  bool batch_invariant = false;
};

// The differences between the tensors of a checkpoint and those of the model.
struct LoadReport {
  std::vector<std::string> missing;     // not in the checkpoint: newly initialised
  std::vector<std::string> unexpected;  // not in the model: ignored
  std::vector<std::string> mismatched;  // of another shape: newly initialised, with ignore_mismatched_sizes
};

// Any number of threads may call forward() and the other const functions of one model at once. Changes of parameters or
// buffers (training, new values) need exclusive use. A ForwardContext and what it points to belong to one thread.
class Model {
 public:
  virtual ~Model();
  // Reads a directory that save_pretrained wrote, Transformers', PEFT's or ours, or a model of the Hugging Face Hub by
  // its id.
  // For a revision, a token or another cache than the environment's, pass the directory that resolve_model (hub.h)
  // gives.
  static std::unique_ptr<Model> from_pretrained(const std::string& name_or_path, const LoadOptions& options = {},
                                                LoadReport* report = nullptr);
  // The same architecture with new weights.
  static std::unique_ptr<Model> from_config(const std::string& config_json, const LoadOptions& options = {});

  // Inputs by the names of Transformers' arguments (input_ids, attention_mask, labels ...); outputs by its names (loss,
  // logits, last_hidden_state ...). Unknown and missing inputs are refused by name. In compile and graph mode a pass
  // without gradients (see NoGradient) is traced once for each signature and its results are computed at once.
  NamedTensors forward(const NamedTensors& inputs, ForwardContext context = {}) const;
  NamedTensors operator()(const NamedTensors& inputs) const { return forward(inputs); }

  const std::vector<std::shared_ptr<Parameter>>& parameters() const { return parameters_; }
  // Tensors of the checkpoint that no gradient trains: running statistics of batch norms. A pass in training gives
  // their new values in ForwardContext::buffer_updates.
  const std::vector<std::shared_ptr<Parameter>>& buffers() const { return buffers_; }
  // With adapters, parameters() are those that are trained, and these are the others; packed weights are among them.
  const std::vector<std::shared_ptr<Parameter>>& frozen() const { return frozen_; }
  const Adaptation* adaptation() const { return adaptation_.get(); }  // null: no adapters
  Adaptation* adaptation() { return adaptation_.get(); }
  // The type of the weights, as LoadOptions chose it.
  DType dtype() const { return dtype_; }
  // What passes of this model compute under, on whichever thread: at first what LoadOptions chose. The context of a
  // pass may ask for more: switches that are on stay on, and so does the type of a model of 16 bits.
  const Computing& computing() const { return computing_; }
  // Needs exclusive use. A model of 16 bits keeps its type. What the pointers name outlives the model, or the next
  // call.
  void set_computing(const Computing& computing);
  Config& config() const { return *config_; }
  const std::string& architecture() const { return architecture_; }
  // The names of the classes by id, from id2label.
  std::vector<std::string> labels() const;
  // Whether forward() takes, beside its other inputs,
  //   seq_idx [B, T]: the number of the text in its row that each token belongs to, counted from 0 in the order of the
  //     row. Tokens see their own text alone, and positions count from 0 in each.
  //   token_places [N]: the places, row by row, of the tokens of a padded batch [B, T] that are no padding. Layers then
  //     see these N alone, as one row; seq_idx is [1, N]. Outputs have the places of the batch, with 0 for padding.
  virtual bool takes_texts_in_rows() const { return false; }

  // Writes config.json and model.safetensors (in shards above the size) as Transformers reads them, in the type that
  // the weights have (packed ones dequantised); of a model with adapters, adapter_config.json and
  // adapter_model.safetensors as PEFT reads them.
  void save_pretrained(const std::string& directory, uint64_t max_shard_bytes = uint64_t{5} << 30) const;

 protected:
  Model() = default;
  virtual NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const = 0;
  // run(), of rows that may hold several texts.
  NamedTensors run_texts(const NamedTensors& inputs, ForwardContext context) const;
  // Puts what the model computes under into the context of a pass.
  void prepare(ForwardContext& context) const;
  // The arguments that run() knows.
  virtual std::vector<std::string> input_names() const = 0;
  // Whether run() builds its results from shapes alone. Otherwise it reads numbers on its way (how long a sound will
  // be), and is not compiled as a whole.
  virtual bool is_one_program() const { return true; }

 private:
  friend class ModelLoader;
  friend class CompiledForward;
  friend class Adaptation;
  std::vector<std::shared_ptr<Parameter>> parameters_, frozen_, buffers_;
  // run_texts(), with what an adaptation puts before the inputs and adds to the loss.
  NamedTensors run_adapted(const NamedTensors& inputs, const ForwardContext& context) const;
  std::shared_ptr<Adaptation> adaptation_;
  std::shared_ptr<Config> config_;
  std::string architecture_;
  DType dtype_ = DType::kFloat32;
  Computing computing_;
  mutable std::shared_ptr<CompiledForward> compiled_;  // made by the first forward pass in compile or graph mode
};

}  // namespace transom
