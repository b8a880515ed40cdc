// SPDX-License-Identifier: Apache-2.0
// transom run from outside: where inputs come from, how results carry them, what each task takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "apps/cli/program.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "support/bitmap.h"
#include "support/golden.h"
#include "support/word_models.h"

namespace transom {
namespace {

class Run : public testing::Test {
 protected:
  // A command line of the task on a BERT with the head of `architecture`.
  std::string call(const std::string& task, const std::string& architecture) {
    test::save_word_model(folder_, test::kWordBert, architecture);
    return "run " + task + " --device cpu --model " + folder_.string() + " ";
  }
  std::string classify() { return call("text-classification", "BertForSequenceClassification"); }
  std::string file(const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return (folder_ / name).string();
  }
  test::TemporaryFolder folder_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(Run, ManyResultsCarryTheirInputs) {
  const std::string line = classify();
  const test::CommandOutcome one = run(line + "'w1 w2'");
  EXPECT_EQ(one.status, 0) << one.output;
  EXPECT_FALSE(has(one.output, "w1")) << one.output;
  EXPECT_FALSE(one.output.starts_with(" ")) << one.output;
  const test::CommandOutcome two = run(line + "'w1 w2' w3");
  EXPECT_TRUE(two.output.starts_with("w1 w2\n  ")) << two.output;
  EXPECT_TRUE(has(two.output, "\nw3\n  ")) << two.output;
  const Json list = parse_json(run(line + "'w1 w2' w3 --json").output, "output");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[1].contains("score"));
  // Of one input the structure is that of Transformers.
  EXPECT_TRUE(parse_json(run(line + "w3 --json").output, "output")[0].contains("label"));
}

// The value of a flag, or a text, may be called as another task is.
TEST_F(Run, TheTaskIsTheWordInItsPlace) {
  const std::string line = classify();
  const std::string answer = run(line + "w1 --top_k 1").output;
  EXPECT_EQ(run(line + "w1 fill-mask --top_k 1").status, 0);
  const auto link = folder_ / "fill-mask";
  std::filesystem::create_directory_symlink(folder_.path(), link);
  const test::CommandOutcome outcome =
      run("run --model fill-mask text-classification w1 --top_k 1 --device cpu", "cd " + folder_.string() + " && ");
  EXPECT_EQ(outcome.output, answer);
}

TEST_F(Run, ReadsTextsFromFilesAndStandardInput) {
  const std::string line = classify();
  const std::string both = run(line + "w1 'w2 w3'").output;
  EXPECT_EQ(run(line + "--file " + file("texts.txt", "w1\r\nw2 w3\n")).output, both);
  EXPECT_EQ(run(line + "-", "printf 'w1\\nw2 w3\\n' | ").output, both);
  // A text that is the name of a file was hardly meant.
  const test::CommandOutcome named = run(line + file("texts.txt", "w1\n"));
  EXPECT_EQ(named.status, 0);
  EXPECT_TRUE(has(named.output, "is a file, and is taken as a text; --file ")) << named.output;
  expect_one_line(run(line + "--file /nonexistent.txt"), 1, "/nonexistent.txt");
}

TEST_F(Run, TablesGiveTheTextsOfAColumn) {
  const std::string line = classify() + "--json ";
  const std::string both = run(line + "w1 'w2 w3'").output;
  const auto answer = [&](const std::string& name, const std::string& text, const std::string& more = "") {
    return run(line + "--file " + file(name, text) + more + " 2>/dev/null | cat").output;
  };
  EXPECT_EQ(answer("a.csv", "id,text,label\n7,w1,x\n8,w2 w3,y\n"), both);
  EXPECT_EQ(answer("b.tsv", "sentence\tn\nw1\t1\nw2 w3\t2\n"), both);
  EXPECT_EQ(answer("c.csv", "body\nw1\nw2 w3\n"), both);  // the only one
  EXPECT_EQ(answer("d.csv", "title,body\nx,w1\ny,w2 w3\n", " --text_column_name body"), both);
  EXPECT_EQ(answer("e.jsonl", "{\"text\": \"w1\", \"n\": 1}\n{\"text\": \"w2 w3\", \"n\": 2}\n"), both);
  EXPECT_EQ(answer("l.csv", "id;text\n7;w1\n8;w2 w3\n"), both);
  EXPECT_EQ(answer("m.csv", "a;b\nw1\nw2 w3\n", " --text_column_name 'a;b'"), both);
  const test::CommandOutcome said = run(classify() + "--file " + (folder_ / "a.csv").string());
  EXPECT_TRUE(has(said.output, "a.csv: column 'text', 2 rows")) << said.output;
  // Numbers stay as they are written.
  EXPECT_TRUE(has(answer("f.csv", "text\n007\nw1\n"), "label"));
  expect_one_line(run(line + "--file " + file("g.csv", "title,body\nx,w1\n")), 1, "--text_column_name");
  expect_one_line(run(line + "--file " + file("a2.csv", "text\nw1\n") + " --text_column_name nope"), 1, "nope");
  expect_one_line(run(line + "--file " + file("h.jsonl", "{\"text\": 5}\n")), 1, "expected a text");
  expect_one_line(run(line + "--file " + file("i.csv", "text\n")), 1, "no rows");
  expect_one_line(run(line + "--file " + file("j.txt", "w1\n") + " --text_column_name text"), 2, "has no effect");
  expect_one_line(run(line + "--file " + file("k.jpg", "\xff\xd8\xff\xe0 w1\n")), 1, "expected UTF-8");
}

TEST_F(Run, VectorsGoIntoFiles) {
  const std::string line = call("feature-extraction", "BertModel");
  const std::string vectors = run(line + "w1 'w2 w3' --pooling mean --json").output;
  const Json expected = parse_json(vectors, "vectors");
  const auto values_of = [&](const std::string& bytes) {  // the end of both formats
    std::vector<float> values(16);
    EXPECT_GE(bytes.size(), 64u);
    std::memcpy(values.data(), bytes.data() + bytes.size() - 64, 64);
    return values;
  };
  for (const char* name : {"v.npy", "v.safetensors"}) {
    const auto path = folder_ / name;
    const test::CommandOutcome outcome = run(line + "w1 'w2 w3' --pooling mean --output " + path.string());
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(outcome.output, "");
    const std::string bytes = read_file(path);
    EXPECT_TRUE(has(bytes, name[2] == 'n' ? "'shape': (2, 8, )" : "\"shape\":[2,8]")) << bytes.substr(0, 128);
    const std::vector<float> values = values_of(bytes);
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(values[i], expected[i / 8][i % 8].get<float>());
    if (name[2] == 'n') {
      EXPECT_EQ((bytes.size() - 64) % 64, 0u);
    }
  }
  expect_one_line(run(line + "w1 --pooling mean --output v.txt"), 2, ".npy or .safetensors");
  expect_one_line(run(line + "w1 'w2 w3' --output " + (folder_ / "w.npy").string()), 1, "results of one shape");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "w.npy"));
}

TEST_F(Run, PicturesGoIntoFiles) {
  const auto golden = std::filesystem::path(test::golden_folder());
  const std::string line =
      "run depth-estimation --device cpu --model " + (golden / "depth-anything/model").string() + " ";
  const std::string picture = (golden / "image/gradient.png").string();
  const auto path = folder_ / "depth.png";
  const test::CommandOutcome outcome = run(line + picture + " --output " + path.string());
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
  const Json json = parse_json(run(line + picture + " --json").output, "output");
  EXPECT_EQ(read_file(path), from_base64(json["depth"].get<std::string>(), "depth"));
  EXPECT_EQ(json["predicted_depth"].size(), 43u);
  EXPECT_TRUE(has(run(line + picture).output, "depth of 57 x 43 pixels, from "));
  const auto several = folder_ / "depths";
  EXPECT_EQ(run(line + picture + " " + (golden / "image/gray.png").string() + " --output " + several.string()).status,
            0);
  EXPECT_EQ(read_file(several / "gradient.png"), read_file(path));
  EXPECT_TRUE(std::filesystem::exists(several / "gray.png"));
  expect_one_line(run(line + picture + " --output depth.jpg"), 2, ".png or .npy or .safetensors");
  expect_one_line(run(line + picture + " " + picture + " --output depth.png"), 2, "a folder");
}

TEST_F(Run, FoldersOfImagesNameTheirFiles) {
  Model::from_config(R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 8, "patch_size": 4})")
      ->save_pretrained(folder_.string());
  write_file(folder_ / "preprocessor_config.json", R"({"image_processor_type": "ViTImageProcessor", "size": 8})");
  const auto images = folder_ / "images";
  std::filesystem::create_directories(images / "deeper");
  for (const char* name : {"a.bmp", "b.bmp"})
    write_file(images / name, test::bitmap(8, [](size_t i) {
                 return std::array<uint8_t, 3>{static_cast<uint8_t>(i), 9, 200};
               }));
  const std::string line = "run image-classification --device cpu --model " + folder_.string() + " --top_k 1 ";
  const test::CommandOutcome outcome = run(line + images.string());
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const char* part : {"a.bmp\n  ", "b.bmp\n  ", "sub-folders are not read: deeper"})
    EXPECT_TRUE(has(outcome.output, part)) << part << " in " << outcome.output;
  EXPECT_TRUE(has(run(line + images.string() + " --json 2>/dev/null").output, "\"score\""));
  expect_one_line(run(line + (images / "deeper").string()), 1, "holds no image file");
}

TEST_F(Run, MissingPartsOfAnInputAreNamed) {
  const std::string ask = call("question-answering", "BertForQuestionAnswering");
  expect_one_line(run(ask + "--question w1"), 2, "--context is missing");
  expect_one_line(run(ask + "--context w1"), 2, "--question is missing");
  const std::string label = call("zero-shot-classification", "BertForSequenceClassification");
  expect_one_line(run(label + "w1"), 2, "--candidate_labels is missing");
  const std::string compare = call("sentence-similarity", "BertModel");
  expect_one_line(run(compare + "w1"), 2, "--source_sentence is missing");
  EXPECT_EQ(run(compare + "--source_sentence w1 w2 w3").status, 0);
}

TEST_F(Run, HumanOutputHasColumnsAndFourDigits) {
  const test::CommandOutcome outcome = run(call("zero-shot-classification", "BertForSequenceClassification") +
                                           "w1 --candidate_labels 'w2, w3' 2>/dev/null");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_FALSE(has(outcome.output, "{")) << outcome.output;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 2) << outcome.output;
  const test::CommandOutcome tags =
      run(call("token-classification", "BertForTokenClassification") + "'w1 w2' --ignore_labels '[]'");
  EXPECT_FALSE(has(tags.output, "{")) << tags.output;
  const test::CommandOutcome features = run(call("feature-extraction", "BertModel") + "'w1 w2'");
  EXPECT_TRUE(features.output.starts_with("[1 x 2 x 8]  ")) << features.output;
  EXPECT_LT(features.output.size(), 150u) << features.output;
}

TEST_F(Run, UnknownKeysOfRequestsAreRefused) {
  const std::string line = classify();
  expect_one_line(run(line + "w1 --requests x.jsonl"), 2, "--requests: the file has the inputs");
  const test::CommandOutcome good = run(line + "--requests " + file("good.jsonl", "{\"inputs\": \"w1\"}\n"));
  EXPECT_EQ(good.status, 0) << good.output;
  expect_one_line(
      run(line + "--requests " + file("bad.jsonl", "{\"inputs\": \"w1\", \"paramters\": {\"top_k\": 1}}\n")), 1,
      "line 1: unknown key 'paramters', did you mean 'parameters'?");
  expect_one_line(
      run(line + "--requests " + file("bad.jsonl", "{\"inputs\": \"w1\", \"parameters\": {\"top_k\": \"all\"}}\n")), 1,
      "line 1: parameter top_k: expected a whole number");
}

TEST_F(Run, HelpShowsWhatATaskTakes) {
  const std::string help = run("run fill-mask --help").output;
  for (const char* part : {"--top_k", "--targets", "Task:", "Model:", "Device:"}) EXPECT_TRUE(has(help, part)) << part;
  for (const char* part : {"--num_beams", "--pooling", "of tasks that write"}) EXPECT_FALSE(has(help, part)) << part;
  const std::string writing = run("run text-generation --help").output;
  for (const char* part : {"Generation:", "--num_beams", "number of beams", "--chat_template"})
    EXPECT_TRUE(has(writing, part)) << part;
  EXPECT_FALSE(has(run("run --help").output, "--num_beams"));
}

TEST_F(Run, FlagsOfOtherTasksAreNamedAsSuch) {
  expect_one_line(run("run fill-mask --model x --question w1 w2"), 2,
                  "it belongs to document-question-answering, question-answering, visual-question-answering");
  expect_one_line(run("run fill-mask --model x --topk 3 w2"), 2, "did you mean '--top_k'?");
  expect_one_line(run("run --task fill-mask --model x w2"), 2, "transom run TASK");
  expect_one_line(run("run fill-mask --model x --top_k many w2"), 2, "--top_k: expected a whole number, found 'many'");
}

TEST_F(Run, AFlagDoesNotTakeTheTextBehindIt) {
  const test::CommandOutcome outcome = run(call("zero-shot-classification", "BertForSequenceClassification") +
                                           "--candidate_labels w2,w3 --multi_label 'w1 w4' --json 2>/dev/null");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(parse_json(outcome.output, "output")["sequence"], "w1 w4");
}

TEST_F(Run, TypesHaveTheirShortNames) {
  const std::string line = classify();
  const std::string full = run(line + "w1 --dtype bfloat16 --json").output;
  EXPECT_EQ(run(line + "w1 --dtype bf16 --json").output, full);
  EXPECT_EQ(run(line + "w1 --dtype auto").status, 0);
  EXPECT_EQ(run(line + "w1 --dtype fp16 --json").output, run(line + "w1 --dtype float16 --json").output);
  expect_one_line(run(line + "w1 --dtype int3"), 2,
                  "--dtype: expected auto, float32, bfloat16 or float16, found 'int3'");
}

TEST_F(Run, ADirectoryThatIsMisspeltIsCalledSoFirst) {
  const test::CommandOutcome outcome =
      run("run fill-mask --model nowhere w1", "HF_ENDPOINT=http://127.0.0.1:1 HF_HUB_CACHE=" + folder_.string() + " ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.output.starts_with("transom: nowhere: is no directory here")) << outcome.output;
  EXPECT_TRUE(has(outcome.output, "error: nowhere: is no directory here, and ")) << outcome.output;
}

}  // namespace
}  // namespace transom
