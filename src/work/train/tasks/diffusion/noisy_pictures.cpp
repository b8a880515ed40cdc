// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/noisy_pictures.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/terminal/log.h"
#include "base/threads/interrupt.h"
#include "base/threads/threads.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/images/augment.h"
#include "runtime/tensor/evaluate.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/tasks/diffusion/denoising_objective.h"
#include "work/train/tasks/media/random_of_row.h"

namespace transom {
namespace {

constexpr const char* kAskedRows = "rows";

std::vector<float> numbers_of(const Tensor& x) { return cast(x, DType::kFloat32).to_vector<float>(); }

}  // namespace

TextStates::States TextStates::encoded(const std::string& text) const {
  check_interrupted();
  const NoGradient fixed;
  const PromptEncoders::Prompt prompt = (*encoders_)(text, 0, form_.t5_tokens, form_.t5_width);
  return {numbers_of(prompt.states), prompt.pooled.defined() ? numbers_of(prompt.pooled) : std::vector<float>(),
          prompt.states.dim(2)};
}

size_t TextStates::place_of(const std::string& text) {
  const auto [found, is_new] = places_.try_emplace(text, texts_.size());
  if (!is_new) return found->second;
  const size_t place = texts_.size();
  texts_.push_back(&found->first);
  const auto of_one = static_cast<size_t>(tokens_ * width_ + pooled_width_) * sizeof(float);
  if (kept_.empty() || (kept_.size() == place && (place + 1) * of_one <= most_kept_)) {
    kept_.push_back(encoded(text));
    if (place == 0) {
      width_ = kept_[0].width;
      tokens_ = static_cast<int64_t>(kept_[0].whole.size()) / width_;
      pooled_width_ = static_cast<int64_t>(kept_[0].pooled.size());
    }
  }
  return place;
}

void TextStates::close() {
  if (kept_.size() == texts_.size()) encoders_.reset();
  else
    log(LogLevel::kInfo, fmt::format("texts: {} of {} are encoded before the first update, the others for each batch",
                                     kept_.size(), texts_.size()));
}

void TextStates::add(Batch& batch, const std::vector<size_t>& places) const {
  const auto rows = static_cast<int64_t>(places.size());
  FloatRows& states = batch.arrays["encoder_hidden_states"];
  states.shape = {rows, tokens_, width_};
  FloatRows* const pooled = pooled_width_ > 0 ? &batch.arrays[form_.pooled] : nullptr;
  if (pooled) pooled->shape = {rows, pooled_width_};
  for (const size_t place : places) {
    States made;
    if (place >= kept_.size()) made = encoded(*texts_[place]);
    const States& one = place < kept_.size() ? kept_[place] : made;
    states.values.insert(states.values.end(), one.whole.begin(), one.whole.end());
    if (pooled) pooled->values.insert(pooled->values.end(), one.pooled.begin(), one.pooled.end());
  }
}

struct NoisyPictures::Drawn {
  std::span<float> clean;         // of all rows; what is noised, or pictures to encode
  std::span<float> latent_noise;  // empty: the clean samples are there
  std::span<float> control;       // empty: rows have none
  std::vector<size_t> texts;
  std::vector<float> time_ids;
};

NoisyPictures::Moments NoisyPictures::encoded(const Image& resized, const PicturePart& part) const {
  check_interrupted();
  const NoGradient fixed;
  const Tensor sample = Tensor::from(parts.pixels(resized, part), {1, parts.channels, parts.height, parts.width});
  const NamedTensors outputs = autoencoder->forward({{"sample", sample}});
  const Tensor mean = cast(outputs.at("latent_mean"), DType::kFloat32),
               deviation = exp(cast(outputs.at("latent_log_variance"), DType::kFloat32) * 0.5);
  eval({mean, deviation});
  return {mean.to_vector<float>(), deviation.to_vector<float>()};
}

void NoisyPictures::encode_ahead() {
  if (!autoencoder) return;
  ahead_ = true;
  extents_.resize(rows.size());
  parallel_for(rows.size(), [&](size_t i) {
    const Image image = read_image(rows[i].file), resized = parts.resized(image);
    extents_[i] = {image.height, image.width, resized.height, resized.width};
  });
  for (const Extents& each : extents_) ahead_ = ahead_ && parts.is_fixed(each.resized_height, each.resized_width);
  if (!ahead_) return;
  PictureParts unmirrored = parts;
  unmirrored.mirrors = false;
  Mt19937 unused;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Image resized = parts.resized(read_image(rows[i].file));
    PicturePart part = unmirrored.draw(resized.height, resized.width, unused);
    plain_.push_back(encoded(resized, part));
    part.mirrored = true;
    if (parts.mirrors) mirrored_.push_back(encoded(resized, part));
  }
}

void NoisyPictures::draw_row(size_t place, const Row& row, size_t number, Mt19937& random, Drawn& drawn) const {
  PicturePart part;
  PictureParts own = parts;
  own.mirrors = parts.mirrors && row.mirrors;
  Extents extents;
  const size_t size = drawn.clean.size() / std::max<size_t>(drawn.texts.size(), 1);
  const std::span<float> clean = drawn.clean.subspan(place * size, size);
  if (ahead_) {
    extents = extents_[number];
    part = own.draw(extents.resized_height, extents.resized_width, random);
  } else {
    const Image image = read_image(row.file), resized = parts.resized(image);
    extents = {image.height, image.width, resized.height, resized.width};
    part = own.draw(resized.height, resized.width, random);
    const std::vector<float> pixels = parts.pixels(resized, part);
    std::copy(pixels.begin(), pixels.end(), clean.begin());
  }
  if (!drawn.control.empty()) {
    const Image seen = parts.resized(read_image(row.control));
    const PicturePart middle{.top = middle_of(seen.height, parts.height), .left = middle_of(seen.width, parts.width)};
    const std::vector<float> pixels = parts.unit_pixels(seen, middle);
    std::copy(pixels.begin(), pixels.end(), drawn.control.begin() + static_cast<ptrdiff_t>(place * pixels.size()));
  }
  if (!row.texts.empty()) {
    const auto count = static_cast<int64_t>(row.texts.size());
    drawn.texts[place] = row.texts[count > 1 ? static_cast<size_t>(random.randint(count)) : 0];
    if (empty_texts > 0 && random.uniform64() < empty_texts) drawn.texts[place] = *empty_text;
  }
  if (tells_extents) {
    const int64_t ids[] = {extents.height, extents.width, part.top, part.left, parts.height, parts.width};
    std::copy(std::begin(ids), std::end(ids), drawn.time_ids.begin() + static_cast<ptrdiff_t>(6 * place));
  }
  if (ahead_) {
    const Moments& moments = part.mirrored ? mirrored_[number] : plain_[number];
    random.fill_normal(clean);
    const size_t places = size / static_cast<size_t>(scale.channels);
    for (size_t k = 0; k < size; ++k)
      clean[k] = scale.for_network(moments.mean[k] + moments.deviation[k] * clean[k], k / places);
  } else if (!drawn.latent_noise.empty()) {
    const size_t width = drawn.latent_noise.size() / drawn.texts.size();
    random.fill_normal(drawn.latent_noise.subspan(place * width, width));
  }
}

void NoisyPictures::fill(Batch& batch, const std::vector<int64_t>& asked, uint64_t draw) const {
  const std::vector<int64_t> numbers = chosen ? chosen(asked) : asked;
  const size_t count_of_rows = numbers.size();
  const auto n = static_cast<int64_t>(count_of_rows);
  const int64_t C = autoencoder ? scale.channels : parts.channels, h = parts.height / enlargement,
                w = parts.width / enlargement;
  const auto make = [&](const char* name, Shape shape) {
    FloatRows& rows_made = batch.arrays[name];
    rows_made.values.resize(static_cast<size_t>(elements(shape)));
    rows_made.shape = std::move(shape);
    return std::span<float>(rows_made.values);
  };
  Drawn drawn;
  drawn.texts.resize(count_of_rows);
  const bool encodes = autoencoder && !ahead_;
  drawn.clean =
      encodes ? make(kPixels, {n, parts.channels, parts.height, parts.width}) : make(kCleanSample, {n, C, h, w});
  if (encodes) drawn.latent_noise = make(kLatentNoise, {n, C, h, w});
  if (!rows.empty() && !rows.front().control.empty())
    drawn.control = make(kControlPicture, {n, parts.channels, parts.height, parts.width});
  if (tells_extents) drawn.time_ids.resize(6 * count_of_rows);
  std::vector<Mt19937> randoms;
  std::vector<RowCount> counts;
  for (size_t i = 0; i < count_of_rows; ++i) {
    randoms.push_back(random_of_row(seed, draw, i));
    counts.push_back(rows[static_cast<size_t>(numbers[i])].count);
  }
  parallel_for(count_of_rows, [&](size_t i) {
    const auto number = static_cast<size_t>(numbers[i]);
    draw_row(i, rows[number], number, randoms[i], drawn);
  });
  const bool usual =
      std::all_of(counts.begin(), counts.end(), [](const RowCount& each) { return each.factor == 1 && each.by_ratio; });
  noise->draw(batch, C, h, w, randoms, usual ? std::span<const RowCount>() : counts);
  if (states) states->add(batch, drawn.texts);
  if (!tokens.empty()) {
    FloatRows& ids = batch.arrays[kTextIds];
    ids.shape = {n, static_cast<int64_t>(tokens.front().size())};
    for (const size_t text : drawn.texts) ids.values.insert(ids.values.end(), tokens[text].begin(), tokens[text].end());
  }
  if (tells_extents) batch.arrays["time_ids"] = {{n, 6}, drawn.time_ids};
}

TrainingData noisy_data(std::shared_ptr<const NoisyPictures> pictures, bool trains) {
  TrainingData data;
  data.rows = pictures->count;
  data.batch = [pictures, trains](const std::vector<int64_t>& rows) {
    Batch batch;
    if (trains) batch.numbers[kAskedRows] = rows;
    else pictures->fill(batch, rows, static_cast<uint64_t>(rows.empty() ? 0 : rows.front()));
    return batch;
  };
  if (!trains) return data;
  data.augment = [pictures](Batch& batch, uint64_t draw) {
    const std::vector<int64_t> rows = std::move(batch.numbers.at(kAskedRows));
    batch.numbers.erase(kAskedRows);
    pictures->fill(batch, rows, draw);
  };
  return data;
}

std::vector<std::filesystem::path> images_below(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  for (std::filesystem::path& file : visible_files(directory))
    if (is_image_name(file)) files.push_back(std::move(file));
  if (files.empty()) fail("{}: expected pictures in it, found none", directory);
  return files;
}

}  // namespace transom
