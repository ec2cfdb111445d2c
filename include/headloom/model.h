#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace headloom {

/// How text is continued. The filters apply in the order of the fields.
struct GenerateOptions {
  std::int64_t tokens = 200;
  double repetition_penalty = 1.0;  ///< 1: off
  double temperature = 0.8;         ///< 0: always the likeliest token
  std::int64_t top_k = 0;           ///< 0: all
  double top_p = 1.0;               ///< 1: all
  double min_p = 0.0;               ///< 0: all
  std::uint64_t seed = 1;
  std::string stop;  ///< stops before this text; empty: only the number of tokens stops
};

/// A trained model, ready to write.
class Model {
 public:
  /// Loads the newest checkpoint of a run, or that of `step`; or a GPT-2 as it is published, which
  /// has no steps.
  /// `device` and `precision` as in TrainOptions.
  /// Errors: headloom::Error naming the file and what is wrong with it, or why there is no such
  /// device.
  explicit Model(const std::string& run, std::int64_t step = -1, const std::string& device = "cpu",
                 const std::string& precision = "fp32");
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  std::int64_t parameters() const;
  std::int64_t context() const;

  /// Continues the prompt; returns the new text alone.
  std::string generate(const std::string& prompt, const GenerateOptions& options = {});
  /// The same, handing text out as it is written, whole characters at a time.
  void stream(const std::string& prompt, const GenerateOptions& options,
              const std::function<void(std::string_view)>& emit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headloom
