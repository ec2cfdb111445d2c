#include "bench/probe_bench.h"

#include <chrono>

#include "bench/bench_run.h"
#include "bench/median.h"
#include "heads/live_probe.h"

namespace headloom {

ProbeBench bench_probes(const ModelConfig& config, std::int64_t batch, std::int64_t rounds,
                        const Ops<float>& ops) {
  BenchRun run(config, batch, ops);
  Trainer& trainer = run.trainer();
  LiveProbe probe(trainer, live_question(trainer, run.tokens(), run.tokenizer()));
  trainer.step();
  std::vector<double> plain, watched, looks;
  for (std::int64_t i = 0; i < rounds; ++i) {
    plain.push_back(trainer.step().seconds);
    probe.attach();
    watched.push_back(trainer.step().seconds);
    const auto start = std::chrono::steady_clock::now();
    probe.look();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    looks.push_back(took.count());
  }
  return {.every = TrainConfig().probe_every,
          .step = median(plain),
          .watched_step = median(watched),
          .look = median(looks)};
}

}  // namespace headloom
