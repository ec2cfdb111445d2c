#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace headloom {

/// Something to be timed beside others.
struct BenchCase {
  std::string name;
  std::string shape;
  double flops = 0;  ///< of one call of run
  std::function<void()> run;
};

/// What a case took. Units: seconds a call; FLOP/s.
struct BenchRow {
  std::string name;
  std::string shape;
  double flops = 0;
  double seconds = 0;  ///< median over the rounds
  double fastest = 0;  ///< of the rounds
  double slowest = 0;
  double share = 0;  ///< of the FMA peak measured around it, median
  double peak = 0;   ///< median
};

/// What cases are measured against, and how one knows that they are done.
struct Meter {
  std::function<double()> peak;  ///< FLOP/s, now
  std::function<void()> finish;  ///< waits for what was put into a queue
};
/// The FMA peak of the CPU, or on a card what its gemm reaches, measured once.
Meter meter_of(const Ops<float>& ops);

/// Times all cases in turn (A B C, A B C, ...), each for about `seconds` a round, with the
/// peak measured between them: what a shared machine does to one it does to all.
std::vector<BenchRow> run_interleaved(const std::vector<BenchCase>& cases, int rounds = 7,
                                      double seconds = 0.1,
                                      const Meter& meter = meter_of(cpu_ops()));

}  // namespace headloom
