#include "headloom/train.h"

#include <algorithm>

#include "api/train_request.h"
#include "cuda/backend.h"
#include "heads/live_probe.h"
#include "train/run.h"

namespace headloom {
namespace {

bool contains(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

TrainRequest request_of(const TrainOptions& options) {
  TrainInputs inputs;
  inputs.corpus = options.corpus;
  inputs.preset = options.preset;
  inputs.out = options.run;
  inputs.command = "headloom::train";
  const std::vector<std::string> model = field_keys(ModelConfig()),
                                 train = field_keys(TrainConfig());
  for (const auto& [key, text] : options.settings) {
    if (contains(model, key)) {
      inputs.model[key] = text;
    } else if (contains(train, key)) {
      inputs.train[key] = text;
    } else {
      std::vector<std::string> known = model;
      known.insert(known.end(), train.begin(), train.end());
      fail_usage("unknown setting {}{}", key, did_you_mean(key, known));
    }
  }
  TrainRequest request = make_train_request(inputs);
  if (options.quiet) request.verbosity = Verbosity::kQuiet;
  request.watch = watch_heads;
  request.backend = {options.device, options.precision};
  add_cuda_backend();
  return request;
}

double run_to_end(const TrainRequest& request) {
  double loss = 0;
  const int code = train_run(request, &loss);
  if (code != 0) fail("training was stopped by signal {} and saved", code - 128);
  return loss;
}

double train(const TrainOptions& options) {
  return run_to_end(request_of(options));
}

}  // namespace headloom
