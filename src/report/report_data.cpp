#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/threads.h"
#include "heads/circuits.h"
#include "heads/findings_json.h"
#include "heads/patterns.h"
#include "heads/prune.h"
#include "report/report.h"
#include "report/token_text.h"
#include "train/checkpoint.h"
#include "train/config.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

/// Cells of patterns that a page holds at most, and the most sequences shown. A model whose heads
/// have more of them in one sequence is shown its beginning.
constexpr std::int64_t kMostCells = 12 << 20;
constexpr std::int64_t kMostShown = 4;
/// Points of a curve over training: more than a screen can tell apart.
constexpr std::size_t kMostPoints = 400;
/// Sequences for what costs a pass per pair of heads, or per checkpoint.
constexpr std::int64_t kFewSequences = 16;

std::string base64(const std::vector<std::uint8_t>& bytes) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? bytes[i + k] : 0U);
    }
    for (int k = 0; k < 4; ++k) {
      const bool there = i + static_cast<std::size_t>(k) <= bytes.size();
      text += there ? kLetters[group >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return text;
}

/// Tokens of a sequence that are shown: all, as far as the page has room for them.
std::int64_t shown_tokens(const Question& question, std::size_t heads) {
  const double room = 2.0 * static_cast<double>(kMostCells) / static_cast<double>(heads);
  return std::min(question.sequences.seq, static_cast<std::int64_t>(std::sqrt(room)));
}

/// The sequences in which most patterns occur, so that every head has something to show.
std::vector<std::int64_t> sequences_to_show(const Question& question, std::size_t heads) {
  const Sequences& s = question.sequences;
  const std::int64_t each = static_cast<std::int64_t>(heads) * s.seq * (s.seq + 1) / 2;
  // A third of the room for more than one: a page of a few MB where that is enough.
  const std::int64_t count =
      std::clamp<std::int64_t>(kMostCells / 3 / each, 1, std::min(kMostShown, s.batch));
  std::vector<std::pair<std::int64_t, std::int64_t>> found;  // patterns that do not occur, place
  for (std::int64_t b = 0; b < s.batch; ++b) {
    std::int64_t missing = 0;
    for (const Targets& t : question.targets) {
      std::int64_t rows = 0;
      for (std::int64_t row = b * s.seq; row < (b + 1) * s.seq; ++row) rows += t.eligible(row);
      missing += rows == 0 ? 1 : 0;
    }
    found.emplace_back(missing, b);
  }
  std::stable_sort(found.begin(), found.end());
  std::vector<std::int64_t> shown;
  for (std::int64_t i = 0; i < count; ++i)
    shown.push_back(found[static_cast<std::size_t>(i)].second);
  return shown;
}

Json targets_json(const Question& question, std::int64_t b, std::int64_t tokens) {
  Json all = Json::object();
  for (const Targets& t : question.targets) {
    Json rows = Json::object();
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto row = static_cast<std::size_t>(b * question.sequences.seq + i);
      if (!t.eligible(static_cast<std::int64_t>(row))) continue;
      rows[std::to_string(i)] = std::vector<std::int32_t>(t.keys.begin() + t.begin[row],
                                                          t.keys.begin() + t.begin[row + 1]);
    }
    all[t.pattern] = std::move(rows);
  }
  return all;
}

/// Tokens, targets and every head's pattern, 8 bits a cell, lower triangle row by row.
Json shown_json(const LoadedModel& model, const Question& question) {
  const Sequences& s = question.sequences;
  const std::vector<HeadId> heads = all_heads(model.config);
  PatternReader reader(model.config, model.parameters.data(), s.seq);
  std::vector<float> row(static_cast<std::size_t>(s.seq));
  const std::int64_t tokens_shown = shown_tokens(question, heads.size());
  Json list = Json::array();
  for (const std::int64_t b : sequences_to_show(question, heads.size())) {
    const std::int32_t* ids = s.ids.data() + b * s.seq;
    reader.read(ids);
    Json tokens = Json::array(), patterns = Json::object();
    for (const TokenText& token : token_texts(ids, tokens_shown, model.tokenizer)) {
      tokens.push_back(token.joined.empty() ? Json(token.text) : Json({token.text, token.joined}));
    }
    for (const HeadId& head : heads) {
      std::vector<std::uint8_t> cells;
      for (std::int64_t i = 0; i < tokens_shown; ++i) {
        reader.row(head, i, row.data());
        for (std::int64_t j = 0; j <= i; ++j) {
          const float p = std::clamp(row[static_cast<std::size_t>(j)], 0.0F, 1.0F);
          cells.push_back(static_cast<std::uint8_t>(std::lround(255 * p)));
        }
      }
      patterns[head.name()] = base64(cells);
    }
    list.push_back({{"number", b},
                    {"tokens", std::move(tokens)},
                    {"targets", targets_json(question, b, tokens_shown)},
                    {"patterns", std::move(patterns)}});
  }
  return list;
}

/// The lines of a JSON-lines file that are whole; none when there is no file.
std::vector<Json> read_lines(const fs::path& path) {
  std::vector<Json> lines;
  if (!fs::exists(path)) return lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) {
    Json json = Json::parse(line, nullptr, false);
    if (!json.is_discarded()) lines.push_back(std::move(json));
  }
  return lines;
}

/// At most kMostPoints of the points, evenly chosen, the last one among them.
std::vector<Json> thinned(const std::vector<Json>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<Json> some;
  for (std::size_t i = 1; i <= kMostPoints; ++i) {
    some.push_back(points[i * points.size() / kMostPoints - 1]);
  }
  return some;
}

Json timeline_json(const fs::path& run) {
  std::vector<Json> loss, validation;
  for (const Json& line : read_lines(run / "metrics.jsonl")) {
    if (line.contains("loss")) loss.push_back(Json::array({line["step"], line["loss"]}));
    if (line.contains("validation_loss")) {
      validation.push_back(Json::array({line["step"], line["validation_loss"]}));
    }
  }
  return {{"loss", thinned(loss)},
          {"validation", thinned(validation)},
          {"heads", thinned(read_lines(run / "heads.jsonl"))}};
}

/// The seed's claim about this run in words; empty when nothing was recorded.
std::string claim_in_words(const Json& timeline) {
  double sum = 0, looks = 0;
  for (const Json& line : timeline["heads"]) {
    const Json& value = line["share_vs_redundancy"];
    if (!value.is_number()) continue;
    sum += value.get<double>();
    looks += 1;
  }
  if (looks == 0) return {};
  return fmt::format(
      "Do redundant heads get smaller gradients? Gradient share and redundancy have a mean rank "
      "correlation of {:.2f} over {:.0f} looks during training; below 0 speaks for it.",
      sum / looks, looks);
}

Sequences first_few(const Sequences& s) {
  Sequences few{.batch = std::min(kFewSequences, s.batch), .seq = s.seq, .ids = {}, .offsets = {}};
  few.ids.assign(s.ids.begin(), s.ids.begin() + few.batch * few.seq);
  return few;
}

Json table_json(const HeadTable& table) {
  Json rows = Json::array();
  for (std::size_t a = 0; a < table.heads; ++a) {
    Json row = Json::array();
    for (std::size_t b = 0; b < table.heads; ++b) {
      row.push_back(std::round(1e4 * table.at(a, b)) / 1e4);  // NaN is written as null
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Loss by the part of heads that stays, for every order; tokens a second where pruning is
/// possible.
Json pruning_json(const LoadedModel& model, const Sequences& s, std::uint64_t seed) {
  float* parameters = model.parameters.data();
  Ablator ablator(model.config, parameters, s);
  Json curves = Json::array();
  for (const PruneBy by :
       {PruneBy::kAblation, PruneBy::kImportance, PruneBy::kGradient, PruneBy::kRandom}) {
    const std::vector<double> worths = head_worths(by, model.config, parameters, s, seed);
    Json points = Json::array();
    for (const double keep : {1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25}) {
      const std::vector<HeadId> kept = heads_to_keep(model.config, worths, keep);
      Json point = {{"heads", kept.size()},
                    {"loss", mean_loss(ablator.with_gates(gates_of(model.config, kept)), s)}};
      if (by == PruneBy::kAblation && model.config.n_kv_heads == 0) {
        const ModelConfig config = pruned_config(model.config, kept);
        const ParameterArray<float> pruned{ParameterLayout(config)};
        copy_kept(model.config, parameters, config, kept, pruned.data());
        point["tokens_per_second"] = forward_speed(config, pruned.data(), s);
      }
      points.push_back(std::move(point));
    }
    curves.push_back({{"by", enum_name(by)}, {"points", std::move(points)}});
  }
  return curves;
}

/// At every checkpoint that is kept: how gradient share goes with ablation loss and redundancy.
Json claim_json(const fs::path& run, const LoadedModel& newest, const Sequences& s) {
  Json list = Json::array();
  if (!fs::exists(run / "config.toml")) return list;
  for (const fs::path& checkpoint : list_checkpoints(run)) {
    const ParameterArray<float> parameters(newest.layout);
    try {
      load_parameters(checkpoint, newest.layout, parameters.data());
    } catch (const Error&) {
      if (fs::exists(checkpoint / "model.safetensors")) throw;
      continue;  // a training that goes on has removed it meanwhile
    }
    const ModelConfig& config = newest.config;
    const std::vector<double> share =
        head_worths(PruneBy::kGradient, config, parameters.data(), s, 1);
    const std::vector<double> cost =
        head_worths(PruneBy::kAblation, config, parameters.data(), s, 1);
    const std::vector<double> alike =
        redundancy(config, output_similarity(config, parameters.data(), s, false));
    list.push_back({{"checkpoint", checkpoint.filename().string()},
                    {"share_vs_ablation", layer_correlation(config, share, cost)},
                    {"share_vs_redundancy", layer_correlation(config, share, alike)}});
  }
  std::reverse(list.begin(), list.end());
  return list;
}

Json circuits_json(const LoadedModel& model, std::uint64_t seed) {
  const ParameterArray<float> fresh = fresh_parameters(model.config, seed);
  Json composition = Json::object();
  for (const Composition kind : {Composition::kQuery, Composition::kKey, Composition::kValue}) {
    const bool turns = model.config.positions == Positions::kRope && kind != Composition::kValue;
    for (const std::int64_t distance : {0, 1, 4, 16}) {
      if (distance > 0 && !turns) break;
      std::string name(enum_name(kind));
      if (turns) name += fmt::format(" at distance {}", distance);
      composition[name] =
          composition_scores(kind, model.config, model.parameters.data(), fresh.data(), distance);
    }
  }
  return {{"copying", copying_scores(model.config, model.parameters.data())},
          {"composition", std::move(composition)}};
}

std::string hash_of(const Sequences& s) {
  const auto* bytes = reinterpret_cast<const char*>(s.ids.data());
  return hash_hex(hash_bytes({bytes, s.ids.size() * sizeof(std::int32_t)}));
}

/// The last name of a path, with or without a slash behind it.
std::string name_of(const fs::path& run) {
  return (run / "").parent_path().filename().string();
}

}  // namespace

Json report_data(const fs::path& run, const QuestionRequest& request, std::int64_t step,
                 const std::function<void(const std::string&)>& progress) {
  const LoadedModel model = load_model(run, step);
  progress("examining every head");
  const Examination e =
      examine(model, make_questions(run, model, request), request.seed,
              [&](std::int64_t done, std::int64_t all) {
                progress(fmt::format("examining heads: {} of {} passes", done, all));
              });
  const Question& text = e.questions[0];
  const Sequences few = first_few(text.sequences);
  Json data = {{"run", name_of(run)},
               {"findings", findings_in_words(e)},
               {"examination", examination_json(e)}};
  data["layers"] = model.config.n_layers;
  data["model"] = fields_to_json(model.config);
  data["text"] = {{"name", request.text.empty() ? "held-out text of the run" : request.text},
                  {"hash", hash_of(text.sequences)}};
  data["methods"] = {{"least_lift", kLeastLift}, {"sink_mass", kSinkMass}};
  progress("reading patterns");
  data["shown"] = shown_json(model, text);
  data["timeline"] = timeline_json(run);
  const std::string claim = claim_in_words(data["timeline"]);
  if (!claim.empty()) data["findings"].push_back(claim);
  progress("comparing heads");
  data["similarity"] =
      table_json(output_similarity(model.config, model.parameters.data(), few, true));
  data["divergence"] = table_json(pattern_divergence(model.config, model.parameters.data(), few));
  progress("pruning");
  data["pruning"] = pruning_json(model, few, request.seed);
  data["claim"] = claim_json(run, model, few);
  progress("reading circuits");
  data["circuits"] = circuits_json(model, request.seed);
  return data;
}

}  // namespace headloom
