// SPDX-License-Identifier: Apache-2.0
// The three formats, from small files that h5py, msgpack and TensorFlow's rules made: what is in them, and that cut or
// changed ones are refused.
#include <gtest/gtest.h>

#include <cstring>

#include "base/files/files.h"
#include "files/foreign/flax/msgpack.h"
#include "files/foreign/foreign_checkpoint.h"
#include "files/foreign/tensorflow/hdf5_file.h"
#include "files/foreign/tensorflow/tensor_bundle.h"
#include "support/folders.h"
#include "support/hostile_bytes.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

std::string seed(const std::string& name) {
  return read_file(fs::path(test::source_folder()) / "tests/fuzz/corpus" / name);
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<float> floats_of(const TensorView& view) {
  std::vector<float> values(view.bytes.size() / sizeof(float));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

const TensorView& at(const NamedViews& views, const std::string& name) {
  for (const auto& [key, view] : views)
    if (key == name) return view;
  throw Error(ErrorKind::kInput, "no " + name);
}

using Values = std::vector<float>;
using Extents = std::vector<int64_t>;

TEST(Hdf5, DatasetsAreFoundInAllGroups) {
  const std::string text = seed("hdf5/keras_weights.h5");
  const NamedViews views = parse_hdf5(bytes_of(text), "weights.h5", nullptr);
  ASSERT_EQ(views.size(), 4u);
  const TensorView& kernel = at(views, "bert/tf_bert/bert/encoder/layer_._0/dense/kernel:0");
  EXPECT_EQ(kernel.shape, (Extents{2, 3}));
  EXPECT_EQ(floats_of(kernel), (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(at(views, "classifier/tf_bert/classifier/kernel:0").dtype, DType::kFloat16);
  EXPECT_EQ(at(views, "bert/tf_bert/bert/ids:0").dtype, DType::kInt64);
}

TEST(Hdf5, WhatKerasDoesNotWriteIsRefusedByName) {
  const auto refusal = [](const std::string& name) {
    return test::message_of([&] { parse_hdf5(bytes_of(seed(name)), "weights.h5", nullptr); });
  };
  EXPECT_NE(refusal("hdf5/chunked.h5").find("compressed"), std::string::npos) << refusal("hdf5/chunked.h5");
  EXPECT_NE(refusal("hdf5/newer.h5").find("superblock of version"), std::string::npos) << refusal("hdf5/newer.h5");
}

TEST(Hdf5, CutAndChangedFilesAreRefused) {
  const std::string text = seed("hdf5/keras_weights.h5");
  test::expect_refusals(text, "weights.h5",
                        [](const std::string& hostile) { parse_hdf5(bytes_of(hostile), "weights.h5", nullptr); });
}

TEST(FlaxMsgpack, ArraysAreFoundInAllMaps) {
  const std::string text = seed("flax_msgpack/parameters.msgpack");
  const NamedViews views = parse_flax_msgpack(bytes_of(text), "flax.msgpack", nullptr);
  ASSERT_EQ(views.size(), 4u);
  EXPECT_EQ(floats_of(at(views, "bert/encoder/layer/0/dense/kernel")), (Values{0, 1, 2, 3, 4, 5}));
  const TensorView& joined = at(views, "bert/embeddings");  // of two chunks
  EXPECT_EQ(joined.shape, (Extents{2, 2}));
  EXPECT_EQ(floats_of(joined), (Values{1, 2, 3, 4}));
}

TEST(FlaxMsgpack, CutAndChangedFilesAreRefused) {
  test::expect_refusals(seed("flax_msgpack/parameters.msgpack"), "flax.msgpack", [](const std::string& hostile) {
    parse_flax_msgpack(bytes_of(hostile), "flax.msgpack", nullptr);
  });
}

TEST(FlaxMsgpack, DeepNestingIsRefused) {
  std::string text;
  for (int i = 0; i < 100'000; ++i)
    text +=
        "\x81\xa1"
        "a";
  EXPECT_NE(test::message_of([&] { parse_flax_msgpack(bytes_of(text), "flax.msgpack", nullptr); }).find("deep"),
            std::string::npos);
}

// A checkpoint of a kernel [2, 3], a bias, a slot of the optimizer, and a counter.
class TensorBundle : public testing::Test {
 protected:
  void SetUp() override {
    index_ = seed("tensor_bundle/model.ckpt.index");
    const float values[] = {0, 1, 2, 3, 4, 5, 7, 8, 9};
    const int64_t step = 5;
    data_.append(reinterpret_cast<const char*>(values), sizeof values);
    data_.append(reinterpret_cast<const char*>(&step), sizeof step);
    write_file(path(), index_);
    write_file(data_path(), data_);
  }
  fs::path path() const { return fs::path(folder_) / "model.ckpt.index"; }
  fs::path data_path() const { return fs::path(folder_) / "model.ckpt.data-00000-of-00001"; }
  test::TemporaryFolder folder_;
  std::string index_, data_;
};

TEST_F(TensorBundle, VariablesGetTheNamesAndTheLayoutOfPyTorch) {
  const auto checkpoint = open_foreign_checkpoint(folder_);
  ASSERT_TRUE(checkpoint);
  ASSERT_EQ(checkpoint->tensors.size(), 2u);  // neither slots nor counters
  const TensorView& weight = at(checkpoint->tensors, "bert.encoder.layer.0.dense.weight");
  EXPECT_EQ(weight.shape, (Extents{3, 2}));
  EXPECT_EQ(floats_of(weight), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(floats_of(at(checkpoint->tensors, "bert.encoder.layer.0.dense.bias")), (Values{7, 8, 9}));
}

TEST_F(TensorBundle, CutAndChangedIndexesAreRefused) {
  test::expect_refusals(index_, "model.index",
                        [](const std::string& hostile) { parse_bundle_index(bytes_of(hostile), "model.index"); });
}

TEST_F(TensorBundle, CutAndChangedValuesAreRefused) {
  const auto read = [&] { open_foreign_checkpoint(folder_); };
  for (size_t length : {size_t{0}, size_t{23}, size_t{35}}) {
    write_file(data_path(), data_.substr(0, length));
    EXPECT_NE(test::message_of(read).find("model.ckpt.data-00000-of-00001"), std::string::npos)
        << test::message_of(read);
  }
  for (size_t place = 0; place < 36; ++place) {  // of what is read
    std::string changed = data_;
    changed[place] ^= 1;
    write_file(data_path(), changed);
    EXPECT_NE(test::message_of(read).find("CRC"), std::string::npos) << test::message_of(read);
  }
  fs::remove(data_path());
  EXPECT_NE(test::message_of(read).find("which is not there"), std::string::npos) << test::message_of(read);
}

TEST_F(TensorBundle, OneOfSeveralIsTheOneThatTheStateNames) {
  write_file(fs::path(folder_) / "older.index", "");
  EXPECT_NE(test::message_of([&] { tensorflow_index(folder_); }).find("several"), std::string::npos);
  write_file(fs::path(folder_) / "checkpoint", "model_checkpoint_path: \"/training/model.ckpt\"\n");
  EXPECT_EQ(tensorflow_index(folder_), path());
}

}  // namespace
}  // namespace transom
