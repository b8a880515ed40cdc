// SPDX-License-Identifier: Apache-2.0
// A checkpoint as PyTorch writes it, made by hand: a zip archive of stored entries with a pickle.
#include "work/train/files/torch_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/json/json.h"
#include "support/message.h"
#include "transom/error.h"
#include "work/train/files/trainer_checkpoint.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

void put(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) to += static_cast<char>(value & 0xFF);
}

// A zip archive whose entries are stored as they are, with no checksums.
std::string zip(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string archive, directory;
  for (const auto& [name, data] : entries) {
    std::string common;
    put(common, 20, 2), put(common, 0, 8);  // version; flags, method, time
    put(common, 0, 4), put(common, data.size(), 4), put(common, data.size(), 4);
    put(common, name.size(), 2), put(common, 0, 2);
    directory += "PK\x01\x02";
    put(directory, 20, 2);
    directory += common;
    put(directory, 0, 10), put(directory, archive.size(), 4);
    directory += name;
    archive += "PK\x03\x04" + common + name + data;
  }
  const size_t start = archive.size();
  archive += directory + "PK\x05\x06";
  put(archive, 0, 4), put(archive, entries.size(), 2), put(archive, entries.size(), 2);
  put(archive, directory.size(), 4), put(archive, start, 4), put(archive, 0, 2);
  return archive;
}

// Writes the opcodes of protocol 2 that torch.save uses.
class Pickle {
 public:
  Pickle& raw(std::string_view code) { return text_ += code, *this; }
  Pickle& name(std::string_view text) {
    text_ += 'X';
    put(text_, text.size(), 4);
    return raw(text);
  }
  Pickle& number(int64_t value) {
    text_ += 'J';
    put(text_, static_cast<uint64_t>(value), 4);
    return *this;
  }
  // A dense float tensor in the storage `key`.
  Pickle& tensor(const std::string& key, const Shape& shape) {
    raw("ctorch._utils\n_rebuild_tensor_v2\n((").name("storage").raw("ctorch\nFloatStorage\n").name(key).name("cpu");
    number(elements(shape)).raw("tQ").number(0).raw("(");
    for (const int64_t extent : shape) number(extent);
    raw("t(");
    for (size_t i = 0; i < shape.size(); ++i)
      number(elements(Shape(shape.begin() + static_cast<ptrdiff_t>(i) + 1, shape.end())));
    return raw(
        "t\x89"
        "ccollections\nOrderedDict\n)RtR");
  }
  std::string end() { return "\x80\x02" + text_ + "."; }

 private:
  std::string text_;
};

// Every moment is filled with a number of its own: that of its place among the states.
std::string optimizer_file(const std::vector<Shape>& states, size_t decaying) {
  std::vector<std::pair<std::string, std::string>> entries = {{"optimizer/data.pkl", ""},
                                                              {"optimizer/byteorder", "little"}};
  Pickle pickle;
  pickle.raw("}(").name("state").raw("}(");
  for (size_t i = 0; i < states.size(); ++i) {
    pickle.number(static_cast<int64_t>(i)).raw("}(");
    for (const char* moment : {"exp_avg", "exp_avg_sq"}) {
      const std::string key = std::to_string(entries.size());
      pickle.name(moment).tensor(key, states[i]);
      const std::vector<float> values(static_cast<size_t>(elements(states[i])), static_cast<float>(i + 1));
      entries.emplace_back("optimizer/data/" + key,
                           std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
    }
    pickle.raw("u");
  }
  pickle.raw("u").name("param_groups").raw("](");
  for (const auto& [begin, end] : {std::pair(size_t{0}, decaying), std::pair(decaying, states.size())}) {
    pickle.raw("}(").name("params").raw("](");
    for (size_t i = begin; i < end; ++i) pickle.number(static_cast<int64_t>(i));
    pickle.raw("eu");
  }
  entries[0].second = pickle.raw("eu").end();
  return zip(entries);
}

class TorchCheckpoint : public testing::Test {
 protected:
  TorchCheckpoint() {
    arguments_ = folder_.arguments({"--learning_rate", "0.001", "--weight_decay", "0.1"}).training;
    model_ = Model::from_pretrained(folder_.path().string());
    step_ = std::make_unique<TrainStep>(*model_, arguments_);
    schedule_ = make_schedule({.type = "linear", .learning_rate = 0.001, .steps = 20});
    folder_.write("trainer_state.json", R"({"global_step": 10, "epoch": 1.0, "max_steps": 20, "log_history": []})");
    folder_.write("scheduler.pt",
                  zip({{"scheduler/data.pkl", Pickle().raw("}(").name("last_epoch").number(10).raw("u").end()}}));
  }
  void load() { load_run(folder_.path(), *model_, *step_, *schedule_, state_); }

  TinyModel folder_;
  TrainingArguments arguments_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<Schedule> schedule_;
  TrainerState state_;
};

TEST_F(TorchCheckpoint, StatesGoToTheParametersInTheOrderOfTheGroups) {
  std::vector<OptimizedParameter> grouped;
  size_t decaying = 0;
  for (const bool decays : {true, false})
    for (const OptimizedParameter& parameter : step_->parameters()) {
      if (parameter.decays != decays) continue;
      grouped.push_back(parameter);
      decaying += decays;
    }
  std::vector<Shape> shapes;
  for (const OptimizedParameter& parameter : grouped) shapes.push_back(parameter.value.shape());
  folder_.write("optimizer.pt", optimizer_file(shapes, decaying));
  load();
  EXPECT_EQ(step_->optimizer().steps(), 10);
  EXPECT_EQ(state_.global_step, 10);
  EXPECT_DOUBLE_EQ(schedule_->learning_rate(), 0.0005);
  ASSERT_EQ(step_->optimizer().state().size(), 2 * grouped.size());
  for (const auto& [name, tensor] : step_->optimizer().state()) {
    const std::string parameter = name.substr(name.find('.') + 1);
    const auto place =
        std::find_if(grouped.begin(), grouped.end(), [&](const auto& each) { return each.name == parameter; });
    EXPECT_EQ(tensor.to_vector<float>()[0], static_cast<float>(place - grouped.begin() + 1)) << name;
  }
}

TEST_F(TorchCheckpoint, RefusesTheStatesOfAnotherModel) {
  folder_.write("optimizer.pt", optimizer_file({{2, 2}, {2}}, 1));
  EXPECT_TRUE(test::message_without_folders([&] {
                load();
              }).starts_with("optimizer.pt: has the states of 2 parameters, the model"));
  folder_.write("optimizer.pt", optimizer_file(std::vector<Shape>(step_->parameters().size(), {3}), 1));
  const std::string message = test::message_without_folders([&] { load(); });
  EXPECT_TRUE(
      message.starts_with("optimizer.pt: the state in the place of parameter 'embeddings.word_embeddings.weight'"))
      << message;
  folder_.write("optimizer.pt", "no archive");
  EXPECT_THROW(load(), Error);
}

}  // namespace
}  // namespace transom
