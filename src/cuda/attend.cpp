// Attention of the CUDA table. fp32: kernels that take any head_dim. bf16: heads are packed into
// rows of the next head_dim that the tiled kernels know, the rest zero, and unpacked after; a zero
// channel adds nothing to a score and gets no gradient.
#include <cmath>
#include <cstring>
#include <vector>

#include "cuda/platform.h"
#include "ops/attend_cuda.h"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using simt::bf16;

template <class T>
HeadsPointer<T> pointer_of(const Heads<T>& x) {
  return {x.data, x.batch_stride, x.seq_stride, x.head_stride};
}

AttendSizes sizes_of(const Heads<const float>& q, const Heads<const float>& k) {
  return {.batch = static_cast<int>(q.batch),
          .seq = static_cast<int>(k.seq),
          .heads = static_cast<int>(q.heads),
          .kv_heads = static_cast<int>(k.heads),
          .queries = static_cast<int>(q.seq)};
}

float scale_of(const Heads<const float>& q) {
  return 1 / std::sqrt(static_cast<float>(q.head_dim));
}

/// Gates come from the host's memory, a few numbers a layer.
const float* gates_on_device(const float* gate, std::int64_t heads) {
  if (gate == nullptr) return nullptr;
  float* copy = scratch<float>(Slot::kGate, heads);
  platform().device->upload(copy, gate, static_cast<std::size_t>(heads) * sizeof(float));
  return copy;
}

/// A packed copy of heads, rows of `dim` bf16.
struct Packed {
  bf16* data;
  HeadsPointer<bf16> pointer;
  HeadsPointer<const bf16> read;
};
Packed packed_place(Slot slot, const Heads<const float>& x, std::int64_t dim) {
  bf16* data = scratch<bf16>(slot, x.batch * x.seq * x.heads * dim);
  const std::int64_t row = x.heads * dim;
  return {data, {data, x.seq * row, row, dim}, {data, x.seq * row, row, dim}};
}
Packed pack(Slot slot, const Heads<const float>& x, std::int64_t dim) {
  const Packed place = packed_place(slot, x, dim);
  pack_heads(x, place.data, dim);
  return place;
}

template <class Args>
using Tiles = void (*)(const Args&);
Tiles<AttendForward<bf16>> tile_forward_of(std::int64_t dim) {
  return dim == 32   ? attend_tile_forward<32>
         : dim == 64 ? attend_tile_forward<64>
         : dim == 96 ? attend_tile_forward<96>
                     : attend_tile_forward<128>;
}
Tiles<AttendBackward<bf16>> tile_backward_of(std::int64_t dim) {
  return dim == 32   ? attend_tile_backward<32>
         : dim == 64 ? attend_tile_backward<64>
         : dim == 96 ? attend_tile_backward<96>
                     : attend_tile_backward<128>;
}

void forward_in_tiles(const headloom::AttendForward<float>& a, const float* gate,
                      std::int64_t dim) {
  const Packed out = packed_place(Slot::kOut, a.out, dim);
  float* lse =
      a.lse != nullptr ? a.lse : scratch<float>(Slot::kLse, a.q.batch * a.q.heads * a.q.seq);
  tile_forward_of(dim)({.sizes = sizes_of(a.q, a.k),
                        .scale = scale_of(a.q),
                        .q = pack(Slot::kQuery, a.q, dim).read,
                        .k = pack(Slot::kKey, a.k, dim).read,
                        .v = pack(Slot::kValue, a.v, dim).read,
                        .out = out.pointer,
                        .lse = lse,
                        .gate = gate});
  unpack_heads(out.data, dim, a.out);
}

AttendForward<float> as_it_lies(const headloom::AttendForward<float>& a, const float* gate) {
  return {.sizes = sizes_of(a.q, a.k),
          .scale = scale_of(a.q),
          .q = pointer_of(a.q),
          .k = pointer_of(a.k),
          .v = pointer_of(a.v),
          .out = pointer_of(a.out),
          .lse = a.lse,
          .gate = gate};
}

/// With `gate` in the device's memory.
void forward_on_device(const headloom::AttendForward<float>& a, const float* gate,
                       Precision precision) {
  // Tiles want as many queries as keys: what training and prompts without a cache have.
  const std::int64_t dim =
      precision == Precision::kBf16 && a.q.seq == a.k.seq ? tile_head_dim(a.q.head_dim) : 0;
  if (dim > 0) return forward_in_tiles(a, gate, dim);
  attend_rows_forward(as_it_lies(a, gate), static_cast<int>(a.q.head_dim));
}

void backward_in_tiles(const headloom::AttendBackward<float>& a, const float* gate, float* delta,
                       std::int64_t dim) {
  const Packed dq = packed_place(Slot::kDquery, a.q, dim), dk = packed_place(Slot::kDkey, a.k, dim),
               dv = packed_place(Slot::kDvalue, a.v, dim);
  tile_backward_of(dim)({.sizes = sizes_of(a.q, a.k),
                         .scale = scale_of(a.q),
                         .q = pack(Slot::kQuery, a.q, dim).read,
                         .k = pack(Slot::kKey, a.k, dim).read,
                         .v = pack(Slot::kValue, a.v, dim).read,
                         .out = pack(Slot::kOut, a.out, dim).read,
                         .dout = pack(Slot::kDout, a.dout, dim).read,
                         .lse = a.lse,
                         .delta = delta,
                         .dq = dq.pointer,
                         .dk = dk.pointer,
                         .dv = dv.pointer,
                         .gate = gate});
  unpack_heads(dq.data, dim, a.dq);
  unpack_heads(dk.data, dim, a.dk);
  unpack_heads(dv.data, dim, a.dv);
}

AttendBackward<float> as_it_lies(const headloom::AttendBackward<float>& a, const float* gate,
                                 float* delta) {
  return {.sizes = sizes_of(a.q, a.k),
          .scale = scale_of(a.q),
          .q = pointer_of(a.q),
          .k = pointer_of(a.k),
          .v = pointer_of(a.v),
          .out = pointer_of(a.out),
          .dout = pointer_of(a.dout),
          .lse = a.lse,
          .delta = delta,
          .dq = pointer_of(a.dq),
          .dk = pointer_of(a.dk),
          .dv = pointer_of(a.dv),
          .gate = gate};
}

/// dgate[b,h] = sum over rows of dout . P v. Where there are gates, P v is made again without them:
/// a gate of 0 has left nothing of it in `out`.
void gate_gradients(const headloom::AttendBackward<float>& a, float* delta, Precision precision) {
  Heads<const float> plain = a.out;
  if (a.gate != nullptr) {
    const std::int64_t row = a.q.heads * a.q.head_dim;
    const Heads<float> again(scratch<float>(Slot::kPlain, a.q.batch * a.q.seq * row), a.q.batch,
                             a.q.seq, a.q.heads, a.q.head_dim, a.q.seq * row, row);
    float* lse = scratch<float>(Slot::kLse, a.q.batch * a.q.heads * a.q.seq);
    forward_on_device({a.q, a.k, a.v, again, lse, nullptr}, nullptr, precision);
    plain = again;
  }
  const AttendSizes sizes = sizes_of(a.q, a.k);
  attend_delta(sizes, pointer_of(a.dout), pointer_of(plain), static_cast<int>(a.q.head_dim), delta);
  const std::int64_t count = a.q.batch * a.q.heads;
  float* sums = scratch<float>(Slot::kDgate, count);
  attend_gate_gradient(sizes, delta, sums);
  platform().device->download(a.dgate, sums, static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace

std::int64_t tile_head_dim(std::int64_t head_dim) {
  return head_dim > 128 ? 0 : (head_dim + 31) / 32 * 32;
}

void attend_forward(const headloom::AttendForward<float>& a, Precision precision) {
  if (a.q.batch == 0 || a.q.seq == 0) return;
  forward_on_device(a, gates_on_device(a.gate, a.q.heads), precision);
}

void attend_backward(const headloom::AttendBackward<float>& a, Precision precision) {
  if (a.q.batch == 0 || a.q.seq == 0) return;
  const float* gate = gates_on_device(a.gate, a.q.heads);
  float* delta = scratch<float>(Slot::kDelta, a.q.batch * a.q.heads * a.q.seq);
  const std::int64_t dim = precision == Precision::kBf16 ? tile_head_dim(a.q.head_dim) : 0;
  if (dim > 0) {
    backward_in_tiles(a, gate, delta, dim);
  } else {
    attend_rows_backward(as_it_lies(a, gate, delta), static_cast<int>(a.q.head_dim));
  }
  if (a.dgate != nullptr) gate_gradients(a, delta, precision);
}

void attend_forward_simply(const headloom::AttendForward<float>& a) {
  attend_simple_forward(as_it_lies(a, nullptr), static_cast<int>(a.q.head_dim));
}

void attend_backward_simply(const headloom::AttendBackward<float>& a) {
  attend_simple_backward(as_it_lies(a, nullptr, nullptr), static_cast<int>(a.q.head_dim));
}

void attend_probe(const headloom::AttendProbe<float>& a) {
  const Device& device = *platform().device;
  const std::int64_t rows = a.q.batch * a.q.seq, places = a.q.batch * a.q.heads;
  // Lists of keys, one after the other: begins, then keys.
  std::vector<std::int32_t> lists;
  for (std::int64_t s = 0; s < a.n_sets; ++s) {
    lists.insert(lists.end(), a.sets[s].begin, a.sets[s].begin + rows + 1);
  }
  std::vector<std::int64_t> first;
  for (std::int64_t s = 0; s < a.n_sets; ++s) {
    first.push_back(static_cast<std::int64_t>(lists.size()));
    lists.insert(lists.end(), a.sets[s].keys, a.sets[s].keys + a.sets[s].begin[rows]);
  }
  // Where each list of keys begins lies behind them, in two halves of 32 bits.
  const std::size_t keys_end = (lists.size() + 1) / 2 * 2;
  lists.resize(keys_end + 2 * first.size());
  if (!first.empty()) {
    std::memcpy(lists.data() + keys_end, first.data(), first.size() * sizeof(std::int64_t));
  }
  auto* on_device = scratch<std::int32_t>(Slot::kSets, static_cast<std::int64_t>(lists.size()) + 2);
  device.upload(on_device, lists.data(), lists.size() * sizeof(std::int32_t));
  const std::int64_t values = kHeadShapes + 2 * a.n_sets;
  const std::int64_t chunks = (a.q.seq + kProbeRows - 1) / kProbeRows;
  auto* parts = scratch<double>(Slot::kParts, chunks * values * places);
  auto* sums = scratch<float>(Slot::kProbe, values * places);
  probe_heads({.sizes = sizes_of(a.q, a.k),
               .head_dim = static_cast<int>(a.q.head_dim),
               .scale = scale_of(a.q),
               .q = pointer_of(a.q),
               .k = pointer_of(a.k),
               .lse = a.lse,
               .begins = on_device,
               .keys = on_device,
               .key_first = reinterpret_cast<const std::int64_t*>(on_device + keys_end),
               .n_sets = static_cast<int>(a.n_sets),
               .parts = parts,
               .sums = sums});
  std::vector<float> all(static_cast<std::size_t>(values * places));
  device.download(all.data(), sums, all.size() * sizeof(float));
  const auto part = [&](std::int64_t from, std::int64_t count, float* to) {
    std::copy_n(all.begin() + from * places, count * places, to);
  };
  part(0, kHeadShapes, a.shape);
  if (a.n_sets == 0) return;
  part(kHeadShapes, a.n_sets, a.mass);
  part(kHeadShapes + a.n_sets, a.n_sets, a.hits);
}

}  // namespace headloom::cuda
