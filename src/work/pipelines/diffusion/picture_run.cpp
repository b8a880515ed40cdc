// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/picture_run.h"

#include <map>
#include <string>

#include "base/error.h"
#include "runtime/tensor/evaluate.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/picture_model.h"

namespace transom {
namespace {

struct AskedPass {
  size_t run, place;
  PictureRun::Question question;
};

// What questions that share a pass have in common.
std::string form_of(const PictureRun::Question& question, const Shape& map) {
  std::string form = fmt::format("{} {}", map[2], map[3]);
  for (const NamedTensors* inputs : {&question.rows, &question.shared})
    for (const auto& [name, tensor] : inputs->items()) {
      Shape shape = tensor.shape();
      if (inputs == &question.rows) shape.at(0) = 0;
      form += fmt::format("; {} {} {}", name, static_cast<int>(tensor.dtype()), shape);
    }
  return form;
}

std::vector<float> said_by(const Model& network, const NamedTensors& rows, const NamedTensors& shared) {
  NamedTensors inputs = rows;
  for (const auto& [name, tensor] : shared.items()) inputs.set(name, tensor);
  return cast(network.forward(inputs).at("sample"), DType::kFloat32).to_vector<float>();
}

Tensor of_all_rows(const PictureRun::Question& question, const std::string& name) {
  const Tensor& given = question.rows.at(name);
  return given.dim(0) == 1 ? repeated_rows(given, question.count) : given;
}

NamedTensors joined_rows(const std::vector<AskedPass>& passes) {
  if (passes.size() == 1) return passes[0].question.rows;
  NamedTensors rows;
  for (const auto& [name, tensor] : passes[0].question.rows.items()) {
    std::vector<Tensor> parts;
    for (const AskedPass& pass : passes) parts.push_back(of_all_rows(pass.question, name));
    rows.set(name, concatenate(parts, 0));
  }
  return rows;
}

}  // namespace

void step_together(const Model& network, std::span<const std::unique_ptr<PictureRun>> runs) {
  std::map<std::string, std::vector<AskedPass>> passes;
  std::vector<std::vector<std::vector<float>>> said(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i]->finished()) continue;
    std::vector<PictureRun::Question> questions = runs[i]->questions();
    said[i].resize(questions.size());
    for (size_t place = 0; place < questions.size(); ++place) {
      const std::string form = form_of(questions[place], runs[i]->now().shape);
      passes[form].push_back({i, place, std::move(questions[place])});
    }
  }
  for (const auto& [form, together] : passes) {
    const std::vector<float> all = said_by(network, joined_rows(together), together[0].question.shared);
    int64_t rows = 0;
    for (const AskedPass& pass : together) rows += pass.question.count;
    const size_t width = all.size() / static_cast<size_t>(rows);
    auto next = all.begin();
    for (const AskedPass& pass : together) {
      const auto end = next + static_cast<ptrdiff_t>(width * static_cast<size_t>(pass.question.count));
      said[pass.run][pass.place].assign(next, end);
      next = end;
    }
  }
  for (size_t i = 0; i < runs.size(); ++i)
    if (!runs[i]->finished()) runs[i]->answer(said[i]);
}

}  // namespace transom
