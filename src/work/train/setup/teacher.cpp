// SPDX-License-Identifier: Apache-2.0
#include "work/train/setup/teacher.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "inputs/images/image_processor.h"
#include "models/loading/input_names.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

bool takes(const Model& model, std::string_view input) {
  const std::vector<std::string> names = input_names_of(model);
  return std::count(names.begin(), names.end(), input) > 0;
}

bool holds_tokenizer(const fs::path& directory) {
  constexpr const char* kFiles[] = {"tokenizer.json", "vocab.txt",       "vocab.json",
                                    "spiece.model",   "tokenizer.model", "sentencepiece.bpe.model"};
  return std::any_of(std::begin(kFiles), std::end(kFiles),
                     [&](const char* name) { return path_exists(directory / name); });
}

// Tokens of the same ids must be the same.
void compare(const Tokenizer& student, const Tokenizer& teacher, const std::string& where) {
  for (int64_t id = 0; id < student.vocab_size(); ++id) {
    const auto learnt = student.id_to_token(id), taught = teacher.id_to_token(id);
    if (learnt && learnt != taught)
      fail(ErrorKind::kUsage,
           "--teacher_model: {}: expected the tokens of the model that is trained, found {} with the id {}, which is "
           "{} there; a teacher needs the same tokenizer",
           where, taught ? quoted(*taught) : "no token", id, quoted(*learnt));
  }
}

// A picture with more than one colour must become the same numbers.
void compare(const ImageProcessor& student, const ImageProcessor& teacher, const std::string& where) {
  Image picture(64, 48);
  for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = static_cast<uint8_t>(i * 37 % 251);
  const auto learnt = student(picture), taught = teacher(picture);
  if (learnt.height != taught.height || learnt.width != taught.width)
    fail(ErrorKind::kUsage, "--teacher_model: {}: takes images of {}x{}, the model that is trained {}x{}", where,
         taught.height, taught.width, learnt.height, learnt.width);
  if (learnt.values != taught.values)
    fail(ErrorKind::kUsage,
         "--teacher_model: {}: its image processor gives other numbers than that of the model that is trained: "
         "expected the same mean, deviation and resampling",
         where);
}

// 1 behind the first separator, as BERT counts its two texts: for students whose tokenizer tells none (DistilBERT).
Tensor second_text(const NamedTensors& inputs, int64_t separator) {
  const Tensor& ids = inputs.at("input_ids");
  const std::vector<int64_t> tokens = ids.to_vector<int64_t>();
  const Tensor mask = inputs.find("attention_mask");
  const std::vector<int64_t> counted = mask.defined() ? mask.to_vector<int64_t>() : std::vector<int64_t>();
  std::vector<int64_t> types(tokens.size());
  const auto length = static_cast<size_t>(std::max<int64_t>(ids.dim(-1), 1));
  for (size_t i = 0, first = 0; i < tokens.size(); ++i) {
    if (i % length == 0) first = 0;
    types[i] = first > 0 && (counted.empty() || counted[i] != 0);
    first += tokens[i] == separator;
  }
  return Tensor::from(types, ids.shape());
}

}  // namespace

Teacher load_teacher(const TrainArguments& arguments, HubOptions hub) {
  const ScriptArguments& script = arguments.script;
  if (!script.teacher_model) return {};
  hub.token = script.token;
  hub.cache_dir = script.cache_dir;
  const fs::path directory = resolve_model(*script.teacher_model, hub);
  LoadReport report;
  Teacher teacher{.model = Model::from_pretrained(directory.string(), {}, &report), .inputs_of = {}};
  if (!report.missing.empty())
    fail(ErrorKind::kUsage,
         "--teacher_model: {}: the checkpoint lacks {}; expected a model that is trained for the task",
         *script.teacher_model, quoted(report.missing[0]));

  const fs::path of_student = script.tokenizer_name.value_or(script.model_name_or_path);
  if (holds_tokenizer(directory) && holds_tokenizer(of_student)) {
    const Tokenizer tokenizer = Tokenizer::from_pretrained(directory.string());
    compare(Tokenizer::from_pretrained(of_student.string()), tokenizer, *script.teacher_model);
    const auto& names = tokenizer.model_input_names();
    const auto separator = tokenizer.sep_token_id();
    if (separator && std::count(names.begin(), names.end(), "token_type_ids") > 0 &&
        takes(*teacher.model, "token_type_ids"))
      teacher.inputs_of = [separator = *separator](const NamedTensors& inputs) {
        NamedTensors given = inputs;
        if (inputs.find("input_ids").defined() && !inputs.find("token_type_ids").defined())
          given.set("token_type_ids", second_text(inputs, separator));
        return given;
      };
  }
  const fs::path images = script.image_processor_name.value_or(script.model_name_or_path);
  if (ImageProcessor::is_in(directory) && ImageProcessor::is_in(images) && takes(*teacher.model, "pixel_values"))
    compare(ImageProcessor::from_pretrained(images), ImageProcessor::from_pretrained(directory), *script.teacher_model);
  return teacher;
}

}  // namespace transom
