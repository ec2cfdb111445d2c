// Trains a small model with a probe on its heads, examines them, and takes the one that costs most
// away.
#include <headloom/error.h>
#include <headloom/heads.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: watch_heads TEXT RUN STEPS\n");
    return 2;
  }
  try {
    headloom::TrainOptions options{.corpus = {argv[1]}, .preset = "andrea-nano", .run = argv[2]};
    options.settings = {{"steps", argv[3]}, {"context", "64"}, {"probe_every", "10"}};
    options.quiet = true;
    headloom::train_with_probe(
        options, [](std::int64_t step, const std::vector<headloom::HeadSummary>& heads) {
          std::printf("step %lld: %zu heads seen, the first one's entropy %.2f\n",
                      static_cast<long long>(step), heads.size(), heads[0].entropy);
        });
    const auto heads = headloom::examine_heads(argv[2]);
    const auto dearest = std::max_element(
        heads.begin(), heads.end(), [](const auto& a, const auto& b) { return a.cost < b.cost; });
    std::printf("%s (%s) costs %.4f nats; loss %.4f with it, %.4f without\n", dearest->head.c_str(),
                dearest->role.c_str(), dearest->cost, headloom::loss_with_gates(argv[2], {}),
                headloom::loss_with_gates(argv[2], {{dearest->head, 0.0}}));
  } catch (const headloom::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
