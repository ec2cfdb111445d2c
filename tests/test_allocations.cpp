// After the first step a training allocates nothing of its own: every operator new is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/temporary.h"
#include "selftest/tiny_models.h"
#include "train/trainer.h"

namespace {
std::atomic<long> g_allocations{0};
}

void* operator new(std::size_t size) {
  ++g_allocations;
  if (void* place = std::malloc(size)) return place;
  throw std::bad_alloc();
}
void operator delete(void* place) noexcept {
  std::free(place);
}
void operator delete(void* place, std::size_t) noexcept {
  std::free(place);
}

namespace headloom {
namespace {

TEST(Allocations, AStepMakesNone) {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "text", std::string(20'000, 'x'));
  const Tokenizer tokenizer = Tokenizer::bytes();
  TokenCache::build(folder.path() / "tokens", {{folder.path() / "text"}, ""}, tokenizer, 0);
  const TokenCache tokens(folder.path() / "tokens", tokenizer.vocab_size());
  for (RunConfig config; const ModelConfig& model : {test::tiny_gpt2(), test::tiny_andrea()}) {
    config.model = model;
    config.model.vocab_size = tokenizer.vocab_size();
    config.train.batch = 2;
    Trainer trainer(config, tokens, split_corpus(tokens.size(), config.model.context, 0.05),
                    cpu_ops());
    trainer.step();
    const long before = g_allocations;
    for (int i = 0; i < 5; ++i) trainer.step();
    EXPECT_EQ(g_allocations, before);
  }
}

}  // namespace
}  // namespace headloom
