#include "support/global_kernels.h"

namespace headloom::simt {
namespace {

int item() {
  return block_x() * kThreads + thread_x();
}

}  // namespace

void writes_past_the_end(Params p) {
  p.out[item() + (p.break_rule ? 1 : 0)] = 1.0F;
}
void reads_past_the_end(Params p) {
  p.out[item()] = p.in[item() + (p.break_rule ? 1 : 0)];
}
void reads_before_the_front(Params p) {
  p.out[item()] = p.in[item() - (p.break_rule ? 1 : 0)];
}
void copies_from_past_the_end(Params p) {
  const Shared<float> s = DynamicShared().take<float>(4 * kThreads);
  const int from = 4 * (item() / 4) + (p.break_rule ? 4 : 0);
  cp_async_16(s, 4 * thread_x(), p.in + from, true);
  cp_async_commit();
  cp_async_wait<0>();
}
void two_blocks_write(Params p) {
  p.out[p.break_rule ? thread_x() : item()] = p.in[item()];
}
void two_blocks_add(Params p) {
  p.out[p.break_rule ? thread_x() : item()] += p.in[item()];
}
void reads_what_another_block_writes(Params p) {
  const float v = p.out[p.break_rule ? (item() + kThreads) % kCount : item()];
  p.out[item()] = v + 1.0F;
}

}  // namespace headloom::simt
