// SPDX-License-Identifier: Apache-2.0
// The values of a model's parameters: those of a checkpoint, by whichever of its names each tensor stands there, and
// new ones for what it lacks.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/mt19937.h"
#include "files/checkpoint/checkpoint.h"
#include "models/family.h"
#include "models/loading/weights/packed_weights.h"

namespace transom {

// For one model: modules are made on it, then finish() settles what they share and what is missing.
class CheckpointParameters : public ParameterSource {
 public:
  // `checkpoint` may be null: all is new then.
  CheckpointParameters(const Checkpoint* checkpoint, const Family& family, const LoadOptions& options, DType dtype)
      : checkpoint_(checkpoint), family_(family), options_(options), dtype_(dtype), generator_(options.seed) {}

  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial& initial) override;
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) override;
  void tied(const std::string& name, const std::shared_ptr<Parameter>& parameter, Tie tie) override;
  void derived(const std::string& name) override { used_.insert(name); }
  bool holds(const std::string& name) const override;

  // Pairs of names under which the checkpoint holds different values, though the configuration ties them: the model
  // must be made without ties.
  const std::vector<std::pair<std::string, std::string>>& untied() const { return untied_; }
  // The same, where the later name is read alone.
  const std::vector<std::pair<std::string, std::string>>& overruled() const { return overruled_; }

  // Looks for what is missing under the names that other classes of the family tie to it, draws new values for the
  // rest, in the order in which they were asked for, and notes tensors that no parameter asked for. A checkpoint that
  // gave nothing at all belongs to another model: an error.
  void finish(const Config& config);

  // Converts a weight after all that is no linear layer's and no table of the vocabulary, of which rows are read and
  // which heads multiply with.
  void convert_stored(Parameter& parameter, int64_t vocabulary) const;
  // Codes lie by outputs. Which weights lie [inputs, outputs] is known once the layers are made: those get their value
  // anew, which this says.
  bool turn_coded(Parameter& parameter);

  std::vector<std::shared_ptr<Parameter>> parameters, buffers;
  LoadReport report;

 private:
  // A parameter whose value is drawn at the end, unless it turns up under another name.
  struct Pending {
    std::shared_ptr<Parameter> parameter;
    Type type;
    Initial initial;
    bool is_missing, is_trained;
  };
  // Of a tensor that holds the experts of a layer together: the weights that parameters took, by their names, and how
  // many it has.
  struct FusedTensor {
    std::map<std::string, TensorView> parts;
    int64_t count = 0;
  };

  std::shared_ptr<Parameter> loaded(const std::string& name, const Type& type, const Initial& initial, bool trained);
  bool load(const std::string& name, const Type& type, Parameter& parameter);
  bool load_pending(size_t place, const std::string& name);
  void complete_by_family(const Config& config);
  void draw_pending();
  void load_compressed(const CompressedWeight& weight, const Type& type, Parameter& parameter);
  void replace_mismatched(const Shape& found, const Type& wanted, Parameter& parameter);
  bool is_kept_stored(const TensorView& view, const Type& type) const;
  void check_size(const std::string& name, const Type& type) const;
  bool hold_the_same(const TensorView& a, const TensorView& b) const;
  std::string name_of_renamed(const std::string& name) const;
  const TensorView* find(const std::string& name);
  const TensorView* find_among_experts(const std::string& name);
  void expect_all_experts() const;
  const CompressedWeight* find_compressed(const std::string& name);
  Tensor fresh(const Type& type, const Initial& initial);

  const Checkpoint* checkpoint_;
  const Family& family_;
  const LoadOptions& options_;
  DType dtype_;
  Mt19937 generator_;
  std::set<std::string> used_;
  SharedInputScales input_scales_;
  std::vector<Pending> pending_;
  std::map<std::string, FusedTensor> fused_;
  std::map<const Parameter*, const TensorView*> views_;       // where the value of a parameter is from
  std::map<const Parameter*, TensorView> stored_;             // of weights that are cast where they are read
  std::map<const Parameter*, std::pair<Shape, Type>> coded_;  // of weights in codes: their shape, and what is wanted
  std::vector<std::pair<std::string, std::string>> untied_, overruled_;
};

}  // namespace transom
