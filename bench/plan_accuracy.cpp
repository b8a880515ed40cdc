// SPDX-License-Identifier: Apache-2.0
// How wrong `transom plan` is on published figures, and the fit of its rates to them.
//
//   plan_accuracy published.csv                         errors by task and family of the shipped rates
//   plan_accuracy published.csv --fit SHARE             fits all, writes the rates into SHARE/devices/*.json
//   plan_accuracy published.csv --cross_validate OUT    each source predicted by rates and figures without it; writes
//                                                       past_errors.json. --by group: each group of figures (the part
//                                                       of an id before - or .), which were published together;
//                                                       --by random: one of eight parts; --by row: each alone
//   ... --family NAME                                   of the rows of one family of hardware
//   ... --rows                                          a line for each row
//   ... --cases DIR                                     writes a case.json for each row
//
// The fit lowers a Huber loss of log(predicted / published) over the exact rows, each weighted by one over the rows of
// the same model, device and task, plus a pull to the priors of the device files, one coordinate after the other.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/numbers.h"
#include "published_table.h"
#include "tools/plan/machines/published_figures.h"
#include "tools/plan/plan.h"
#include "tools/plan/plan_data.h"

namespace transom {
namespace {

struct Row {
  std::map<std::string, std::string> text;
  Job job;
  ModelShape shape;
  size_t device = 0, baseline = SIZE_MAX;  // in `devices`
  Job baseline_job;
  double published = 0, weight = 1;
  bool exact = false;
  bool pruned = false;  // of another network than its name says, by a note that no case has: nothing learns from it
  const std::string& operator[](const char* name) const { return text.at(name); }
};

std::vector<DeviceModel> devices;

size_t device_index(const std::string& hardware) {
  const DeviceModel found = find_device_model(hardware);
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i].name == found.name) return i;
  fail("{}: no device file", hardware);
}

std::vector<Row> read_rows(const std::string& file) {
  static const std::set<std::string> kMetrics = {"throughput",        "latency", "time_to_train",
                                                 "tflops_per_device", "ratio",   "latency_ratio"};
  std::vector<Row> rows;
  for (const auto& text : read_table(file)) {
    if (text.at("task") == "kernel" || text.at("task") == "collective" || !kMetrics.count(text.at("metric"))) continue;
    Row row;
    row.text = text;
    row.published = number(text.at("value"));
    row.exact = text.at("quality") == "exact" && text.at("metric") != "time_to_train" && text.at("metric") != "ratio";
    row.pruned = text.at("notes").starts_with("pruned");
    try {
      row.job = parse_job(case_of(text).dump(), text.at("id"));
      row.device = device_index(row.job.hardware);
      row.shape = model_shape_of("", row.job.model, row.job.parameters);
      const std::string& notes = text.at("notes");
      if (const size_t at = notes.find("baseline: hardware="); at != notes.npos) {
        const size_t begin = at + 19, end = notes.find(';', begin);
        row.baseline_job = row.job;
        row.baseline_job.hardware = notes.substr(begin, end - begin);
        row.baseline = device_index(row.baseline_job.hardware);
      }
    } catch (const std::exception& error) {
      std::printf("%-14s not answered: %s\n", text.at("id").c_str(), error.what());
      row.device = SIZE_MAX;
    }
    rows.push_back(std::move(row));
  }
  std::map<std::string, int> alike;
  const auto kind = [](const Row& row) { return row["model"] + row["hardware"] + row["task"]; };
  for (const Row& row : rows) alike[kind(row)] += row.exact;
  for (Row& row : rows) row.weight = 1.0 / std::max(1, alike[kind(row)]);
  return rows;
}

double value_of(const Row& row, const Plan& plan) {
  const std::string &metric = row["metric"], &unit = row["unit"];
  if (metric == "time_to_train") return 1 / plan.samples_per_second;
  if (metric == "tflops_per_device") return 6 * row.job.parameters * plan.tokens_per_second / row.job.devices / 1e12;
  if (metric == "latency" || metric == "latency_ratio") {
    const double seconds = row["phase"].find("first token") != std::string::npos ? plan.first_token_seconds
                           : row["task"] == "generate"                           ? plan.request_seconds
                                                                                 : plan.step_seconds;
    return seconds * (unit == "ms" ? 1e3 : unit == "us" ? 1e6 : 1);
  }
  if (metric == "ratio")
    return row["phase"].find("first token") != std::string::npos ? 1 / plan.first_token_seconds
                                                                 : plan.samples_per_second;
  const double rate = unit.starts_with("tokens/s") ? plan.tokens_per_second : plan.samples_per_second;
  return unit.ends_with("/device") ? rate / row.job.devices : rate;
}

std::optional<double> predict(const Row& row, const PublishedFigures* figures = nullptr, Plan* whole = nullptr) {
  if (row.device == SIZE_MAX) return {};
  try {
    const Plan made = plan(row.job, row.shape, devices[row.device], figures);
    if (whole) *whole = made;
    double value = value_of(row, made);
    if (row.baseline != SIZE_MAX)
      value /= value_of(row, plan(row.baseline_job, row.shape, devices[row.baseline], figures));
    return value / row.published;
  } catch (const std::exception& error) {
    std::printf("%-14s not answered: %s\n", row["id"].c_str(), error.what());
    return {};
  }
}

// A group of figures that were published together.
std::string group_of(const Row& row) { return row["id"].substr(0, row["id"].find_first_of("-.")); }

// One of eight parts, by chance, the same each time.
std::string random_fold(const Row& row) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : row["id"]) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return std::to_string((hash >> 32) % 8);
}

// Whether the figure tells of a speed on one machine, so that others may learn from it.
bool counts(const Row& row) {
  static const std::set<std::string> kMetrics = {"throughput", "latency", "tflops_per_device"};
  return row.exact && !row.pruned && row.device != SIZE_MAX && row.baseline == SIZE_MAX &&
         kMetrics.count(row["metric"]);
}

double speed_ratio(const Row& row, double ratio) { return row["metric"] == "latency" ? 1 / ratio : ratio; }

// The figures of rows that `kept` accepts, with what the present rates say of them.
template <class Kept>
std::vector<PublishedFigure> figures_of(const std::vector<Row>& rows, const Kept& kept) {
  std::vector<PublishedFigure> figures;
  for (const Row& row : rows) {
    if (!counts(row) || !kept(row)) continue;
    Plan made;
    const auto ratio = predict(row, nullptr, &made);
    if (!ratio || !(*ratio > 0)) continue;
    figures.push_back(figure_of(made, devices[row.device]));
    figures.back().parameters = row.shape.parameters;
    figures.back().ratio = speed_ratio(row, *ratio);
  }
  return figures;
}

// ---- the fit

struct Coordinate {
  std::string name;
  std::vector<size_t> of;  // devices that share it
  double low, high;
  bool training, generation, inference;  // rows that it concerns
};

// Shared by a family: what stands for the construction and its software. Of a device: what its generation reached.
std::vector<Coordinate> coordinates_of(const std::string& family) {
  std::vector<size_t> all;
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i].family == family) all.push_back(i);
  std::vector<Coordinate> result;
  const auto shared = [&](const char* name, double low, double high, bool t, bool g, bool i) {
    result.push_back({name, all, low, high, t, g, i});
  };
  const auto own = [&](const char* name, double low, double high, bool t, bool g, bool i) {
    for (const size_t device : all) result.push_back({name, {device}, low, high, t, g, i});
  };
  own("matrix", 0.05, 0.97, true, false, false);
  own("matrix_inference", 0.03, 0.97, false, true, true);
  own("memory", 0.25, 0.95, false, true, true);
  own("layer_training", 1e-5, 1e-2, true, false, false);
  own("layer_inference", 2e-6, 5e-4, false, true, true);
  own("collective", 3e-6, 4e-4, true, true, false);
  own("step", 1e-4, 1e-1, true, false, false);
  own("engine_products", 0.1, 1, false, false, true);
  own("engine_lanes", 0.05, 1, false, false, true);
  shared("matrix_narrow", 0.4, 1, true, true, true);
  shared("half_width", 10, 2000, true, true, true);
  shared("passes", 0.001, 4, true, true, true);
  shared("sample", 1e-6, 2e-3, true, false, false);
  shared("sharding", 2e10, 1e13, true, false, false);
  shared("crowding", 1, 2.5, true, false, false);
  shared("overlap", 1, 4, true, false, true);
  shared("overlap_decoding", 1, 6, false, true, false);
  shared("cache", 0.7, 3, false, true, false);
  shared("link", 0.3, 0.95, true, true, false);
  shared("tuned", 0.05, 1, true, false, false);
  shared("convolution", 0.2, 2, true, false, true);
  shared("separable", 0.02, 1, true, false, true);
  shared("image", 1e-7, 5e-3, false, false, true);
  return result;
}

double loss(const std::vector<const Row*>& rows, const Coordinate* coordinate) {
  double total = 0;
  for (const Row* row : rows) {
    const bool training = is_training(row->job.task), generation = row->job.task == JobTask::kGenerate;
    if (coordinate) {
      if (!(training ? coordinate->training : generation ? coordinate->generation : coordinate->inference)) continue;
      if (coordinate->of.size() == 1 && coordinate->of[0] != row->device) continue;
    }
    const auto ratio = predict(*row);
    const double error = ratio && *ratio > 0 ? std::abs(std::log(*ratio)) : 3;
    constexpr double kHuber = 0.15;
    total += row->weight * (error < kHuber ? error * error / 2 : kHuber * (error - kHuber / 2));
  }
  return total;
}

constexpr double kPull = 0.1, kPullOfMany = 0.03, kMany = 60;
template <class Kept>
void fit(const std::vector<Row>& rows, const Kept& kept, const std::vector<DeviceModel>& priors, int rounds,
         const std::set<std::string>& families) {
  for (const std::string& family : families) {
    std::vector<const Row*> own;
    for (const Row& row : rows)
      if (row.exact && !row.pruned && row.device != SIZE_MAX && devices[row.device].family == family && kept(row))
        own.push_back(&row);
    if (own.empty()) continue;
    const std::vector<Coordinate> coordinates = coordinates_of(family);
    // Of a factor of e away from the prior. Few figures must not bend many rates: a random part that is left out says
    // so.
    const double pull = static_cast<double>(own.size()) > kMany ? kPullOfMany : kPull;
    double step = 0.25;
    for (int round = 0; round < rounds; ++round, step *= 0.75)
      for (const Coordinate& c : coordinates) {
        const double prior = fitted_rate(const_cast<DeviceModel&>(priors[c.of[0]]).fitted, c.name);
        double value = fitted_rate(devices[c.of[0]].fitted, c.name);
        if (prior <= 0) continue;
        const auto at = [&](double tried) {
          for (const size_t device : c.of) fitted_rate(devices[device].fitted, c.name) = tried;
          const double away = std::log(tried / prior);
          return loss(own, &c) + pull * away * away;
        };
        double best = at(value);
        for (const double factor : {1 + step, 1 / (1 + step)}) {
          for (int again = 0; again < 3; ++again) {
            const double tried = std::clamp(value * factor, c.low, c.high);
            if (tried == value) break;
            const double found = at(tried);
            if (found >= best) break;
            best = found, value = tried;
          }
        }
        at(value);
      }
  }
}

// ---- reports

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

// time_to_train counts up to one constant a benchmark, which convergence decides.
void remove_constants(const std::vector<Row>& rows, std::vector<std::optional<double>>& ratios) {
  std::map<std::string, std::vector<double>> found;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i]["metric"] == "time_to_train" && ratios[i]) found[rows[i]["phase"]].push_back(*ratios[i]);
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i]["metric"] == "time_to_train" && ratios[i])
      ratios[i] = *ratios[i] / quantile(found[rows[i]["phase"]], 0.5);
}

void report(const char* title, const std::vector<Row>& rows, const std::vector<std::optional<double>>& ratios) {
  std::map<std::string, std::vector<double>> groups;
  size_t answered = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double error = ratios[i] ? std::abs(*ratios[i] - 1) : 1e9;
    answered += ratios[i].has_value();
    groups["all"].push_back(error);
    groups["quality " + rows[i]["quality"]].push_back(error);
    if (rows[i]["quality"] != "exact") continue;
    groups["metric " + rows[i]["metric"]].push_back(error);
    groups["task " + rows[i]["task"]].push_back(error);
    if (rows[i].device == SIZE_MAX) continue;
    groups["family " + devices[rows[i].device].family].push_back(error);
    groups["device " + devices[rows[i].device].name + " " + rows[i]["task"]].push_back(error);
  }
  std::printf("\n%s: %zu of %zu rows answered\n%-36s %5s %8s %8s %8s %8s\n", title, answered, rows.size(), "exact rows",
              "rows", "median", "< 15 %", "< 25 %", "< 50 %");
  for (const auto& [name, errors] : groups) {
    const auto within = [&, &errors = errors](double limit) {
      return 100.0 *
             static_cast<double>(std::count_if(errors.begin(), errors.end(), [&](double e) { return e < limit; })) /
             static_cast<double>(errors.size());
    };
    std::printf("%-36s %5zu %7.1f%% %7.0f%% %7.0f%% %7.0f%%\n", name.c_str(), errors.size(),
                100 * quantile(errors, 0.5), within(0.15), within(0.25), within(0.5));
  }
}

std::vector<std::optional<double>> predict_all(const std::vector<Row>& rows, bool each) {
  std::vector<std::optional<double>> ratios;
  const PublishedFigures figures(figures_of(rows, [](const Row&) { return true; }));
  for (const Row& row : rows) {
    Plan made;
    made.fits = true;
    ratios.push_back(predict(row, &figures, &made));
    if (!made.fits && !each) std::printf("%-14s does not fit, but was run\n", row["id"].c_str());
  }
  remove_constants(rows, ratios);
  if (each)
    for (size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      std::printf("%-14s %-9s %-24s %-12s x%-4s b%-6s s%-5s %-8s %-13s %-28.28s %5.2f %s\n", row["id"].c_str(),
                  row["task"].c_str(), row["model"].c_str(), row["hardware"].c_str(), row["devices"].c_str(),
                  (row["global_batch"].empty() ? row["batch_per_device"] : row["global_batch"]).c_str(),
                  row["sequence_length"].c_str(), row["dtype"].c_str(), row["metric"].c_str(),
                  row["optimisations"].c_str(), ratios[i].value_or(0), row["quality"].c_str());
    }
  return ratios;
}

// What was foretold of each row by what had not seen it.
struct LeftOut {
  std::vector<std::optional<double>> ratios, rates_alone;
  std::vector<double> deviations;
};

template <class Fold>
LeftOut leave_out(const std::vector<Row>& rows, const std::vector<DeviceModel>& priors, int rounds, const Fold& fold) {
  LeftOut result{std::vector<std::optional<double>>(rows.size()), std::vector<std::optional<double>>(rows.size()),
                 std::vector<double>(rows.size())};
  std::set<std::string> folds;
  for (const Row& row : rows) folds.insert(fold(row));
  for (const std::string& one : folds) {
    devices = priors;
    const auto kept = [&](const Row& row) { return fold(row) != one; };
    std::set<std::string> touched;  // families that this fold tells of, and those it is compared with
    for (const Row& row : rows)
      if (!kept(row) && row.device != SIZE_MAX) {
        touched.insert(devices[row.device].family);
        if (row.baseline != SIZE_MAX) touched.insert(devices[row.baseline].family);
      }
    fit(rows, kept, priors, rounds, touched);
    const PublishedFigures figures(
        figures_of(rows, [&](const Row& row) { return kept(row) && touched.count(devices[row.device].family) > 0; }));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (kept(rows[i])) continue;
      Plan made;
      result.ratios[i] = predict(rows[i], &figures, &made);
      result.rates_alone[i] = predict(rows[i]);
      result.deviations[i] = made.past_error.deviation;
    }
  }
  return result;
}

// With the ratios of the rates that are shipped: `devices` holds them.
std::vector<PublishedFigure> left_out_figures(const std::vector<Row>& rows, const LeftOut& left_out) {
  std::vector<PublishedFigure> list = figures_of(rows, [](const Row&) { return true; });
  for (PublishedFigure& figure : list)
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i]["id"] == figure.id && left_out.ratios[i]) {
        figure.left_out_ratio = speed_ratio(rows[i], *left_out.ratios[i]);
        figure.promised = left_out.deviations[i];
      }
  return list;
}

// Of each figure, whether the error that the others' errors let one promise was kept: two thirds should be.
void report_promises(const std::vector<Row>& rows, const LeftOut& left_out) {
  const std::vector<PublishedFigure> list = left_out_figures(rows, left_out);
  std::map<std::string, std::pair<int, int>> kept;  // of all
  for (size_t i = 0; i < list.size(); ++i) {
    if (!(list[i].promised > 0)) continue;
    std::vector<PublishedFigure> others;
    for (size_t k = 0; k < list.size(); ++k)
      if (k != i) others.push_back(list[k]), others.back().counted = false;
    Plan asked;
    asked.job.task = parse_task(list[i].task, "task"), asked.past_error.deviation = list[i].promised;
    const DeviceModel device = find_device_model(list[i].hardware);
    const double promise = past_error_of(asked, device, PublishedFigures(std::move(others))).within_percent;
    const bool within = std::abs(list[i].left_out_ratio - 1) <= promise / 100;
    const char* band = promise <= 15   ? "promise up to 15 %"
                       : promise <= 20 ? "promise 15 to 20 %"
                       : promise <= 30 ? "promise 20 to 30 %"
                                       : "promise over 30 %";
    for (const std::string& name : {std::string(band), "family " + device.family}) {
      kept[name].first += within, ++kept[name].second;
    }
  }
  std::printf("\npromises, each judged by the other figures\n");
  for (const auto& [name, count] : kept)
    std::printf("%-36s %5d of %d kept %5.0f%%\n", name.c_str(), count.first, count.second,
                100.0 * count.first / count.second);
}

int run(const std::vector<std::string>& words) {
  if (words.empty())
    fail(ErrorKind::kUsage,
         "usage: plan_accuracy published.csv [--rows] [--fit SHARE] [--cross_validate OUT [--by group]]");
  devices = all_device_models();
  std::vector<DeviceModel> priors = devices;
  for (DeviceModel& device : priors) device.fitted = device.prior;
  std::vector<Row> rows = read_rows(words[0]);
  const auto value = [&](const char* flag) -> std::string {
    const auto found = std::find(words.begin(), words.end(), flag);
    return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
  };
  const bool each = std::find(words.begin(), words.end(), "--rows") != words.end();
  const int rounds = value("--rounds").empty() ? 8 : std::stoi(value("--rounds"));
  std::set<std::string> families;
  for (const DeviceModel& device : devices) families.insert(device.family);
  if (!value("--family").empty()) {
    families = {value("--family")};
    std::erase_if(
        rows, [&](const Row& row) { return row.device == SIZE_MAX || !families.count(devices[row.device].family); });
  }
  if (const std::string folder = value("--cases"); !folder.empty())
    for (const auto& row : read_table(words[0]))
      write_file(folder + "/" + row.at("id") + ".json", case_of(row).dump(1));
  if (const std::string share = value("--fit"); !share.empty()) {
    for (size_t i = 0; i < devices.size(); ++i)
      if (families.count(devices[i].family)) devices[i] = priors[i];
    fit(
        rows, [](const Row&) { return true; }, priors, rounds, families);
    for (DeviceModel& device : devices) {
      const std::string file = share + "/devices/" + device.name + ".json";
      Json json = read_json(file);
      for (const std::string& name : fitted_rate_names())
        json["fitted"][name] = parse_double(fmt::format("{:.4g}", fitted_rate(device.fitted, name))).value();
      write_file(file, dump_json(json, 2) + "\n");
    }
  }
  if (const std::string out = value("--cross_validate"); !out.empty()) {
    const std::vector<DeviceModel> shipped = devices;
    const std::string by = value("--by");
    LeftOut left_out = leave_out(rows, priors, rounds, [&](const Row& row) {
      return by == "group"    ? group_of(row)
             : by == "random" ? random_fold(row)
             : by == "row"    ? row["id"]
                              : row["source"];
    });
    devices = shipped;
    if (out != "-") write_file(out, published_figures_json(left_out_figures(rows, left_out)));
    report_promises(rows, left_out);
    remove_constants(rows, left_out.ratios);
    remove_constants(rows, left_out.rates_alone);
    report("left out, rates alone", rows, left_out.rates_alone);
    report("left out", rows, left_out.ratios);
    for (size_t i = 0; each && i < rows.size(); ++i)
      std::printf("%-14s %-24s %-16s rates alone %5.2f, with figures %5.2f\n", rows[i]["id"].c_str(),
                  rows[i]["model"].c_str(), rows[i]["hardware"].c_str(), left_out.rates_alone[i].value_or(0),
                  left_out.ratios[i].value_or(0));
    return 0;
  }
  report("fitted", rows, predict_all(rows, each));
  return 0;
}

}  // namespace
}  // namespace transom

int main(int count, char** words) {
  try {
    return transom::run({words + 1, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_accuracy: error: %s\n", error.what());
    return 1;
  }
}
