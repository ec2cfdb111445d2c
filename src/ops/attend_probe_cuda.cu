// Where heads look: a block makes the rows of 16 queries again, one after the other, and adds up
// what attend_probe_ref.h defines; a second kernel adds the blocks up in their order.
#include "ops/attend_cuda.h"
#include "ops/cuda_block.cuh"

namespace headloom::cuda {
namespace {

using namespace simt;

constexpr double kNothingLeft = 1e-6;  // as in the definition
// Places of the shapes in the results, as HeadShape numbers them.
enum { kEntropy, kDistance, kConfidence, kSink, kEntropyRest, kDistanceRest, kConfidenceRest };
constexpr int kShapes = 7;

/// The parts of one row, made by all threads of the block together.
struct Row {
  float sink, entropy, left, distance, largest;
  int likeliest;
};

SIMT_FN Row make_row(const Probe& p, std::int64_t b, std::int64_t h, int i, const Shared<float>& a,
                     const Shared<float>& partial) {
  const AttendSizes& d = p.sizes;
  const std::int64_t kv = h / (d.heads / d.kv_heads);
  const float* q = rows_of(p.q, b, h) + i * p.q.seq;
  const float lse = p.lse[(b * d.heads + h) * d.seq + i];
  float entropy = 0.0F, left = 0.0F, distance = 0.0F, largest = 0.0F, top = 0.0F;
  for (int j = thread_x(); j <= i; j += kBlockThreads) {
    const float* k = rows_of(p.k, b, kv) + j * p.k.seq;
    float score = 0.0F;
    for (int n = 0; n < p.head_dim; ++n) score += q[n] * k[n];
    const float probability = expf(score * p.scale - lse);
    a[j] = probability;
    top = fmaxf(top, probability);
    if (j == 0) continue;
    entropy += probability > 0.0F ? -probability * logf(probability) : 0.0F;
    left += probability;
    distance += probability * static_cast<float>(i - j);
    largest = fmaxf(largest, probability);
  }
  top = block_max(top, partial);
  float before = -static_cast<float>(i + 1);  // the first key that has the most, counted down
  for (int j = thread_x(); j <= i; j += kBlockThreads) {
    if (a[j] == top) before = fmaxf(before, -static_cast<float>(j));
  }
  Row row{};
  row.likeliest = static_cast<int>(-block_max(before, partial));
  row.entropy = block_sum(entropy, partial);
  row.left = block_sum(left, partial);
  row.distance = block_sum(distance, partial);
  row.largest = block_max(largest, partial);
  row.sink = a[0];
  return row;
}

SIMT_FN void add_shape(const Row& row, int i, double (&sums)[kShapes]) {
  const double sink = row.sink, n = i, left = row.left;
  const double sink_entropy = sink > 0.0 ? -sink * log(sink) : 0.0;
  sums[kEntropy] += (row.entropy + sink_entropy) / log(n + 1.0);
  sums[kDistance] += row.distance + sink * n;
  sums[kConfidence] += fmaxf(row.largest, row.sink);
  sums[kSink] += sink;
  if (left < kNothingLeft) {
    sums[kConfidenceRest] += 1.0;
    return;
  }
  sums[kEntropyRest] += i > 1 ? (row.entropy / left + log(left)) / log(n) : 0.0;
  sums[kDistanceRest] += row.distance / left;
  sums[kConfidenceRest] += row.largest / left;
}

SIMT_KERNEL(kBlockThreads, 1)
void probe_rows(Probe p) {
  const AttendSizes& d = p.sizes;
  const std::int64_t b = block_x() / d.heads, h = block_x() % d.heads;
  const std::int64_t places = static_cast<std::int64_t>(d.batch) * d.heads;
  const std::int64_t rows = static_cast<std::int64_t>(d.batch) * d.seq;
  double* parts = p.parts + block_y() * (kShapes + 2 * p.n_sets) * places + block_x();
  const Shared<float> a = DynamicShared().take<float>((d.seq + 3) / 4 * 4);
  SIMT_STATIC_SHARED(float, partial, kBlockWarps);
  double shape[kShapes] = {};
  // A thread owns sets thread_x, thread_x + 128, ...
  for (int s = thread_x(); s < 2 * p.n_sets; s += kBlockThreads) parts[(kShapes + s) * places] = 0;
  barrier();
  const int first = block_y() * kProbeRows;
  for (int i = first; i < first + kProbeRows && i < d.seq; ++i) {
    const Row row = make_row(p, b, h, i, a, partial);
    for (int s = thread_x(); s < p.n_sets; s += kBlockThreads) {
      const std::int32_t* begin = p.begins + s * (rows + 1) + b * d.seq + i;
      double mass = 0.0, hits = 0.0;
      for (std::int32_t n = begin[0]; n < begin[1]; ++n) {
        const int key = p.keys[p.key_first[s] + n];
        mass += a[key];
        hits += key == row.likeliest ? 1.0 : 0.0;
      }
      parts[(kShapes + s) * places] += mass;
      parts[(kShapes + p.n_sets + s) * places] += hits;
    }
    if (thread_x() == 0 && i > 0) add_shape(row, i, shape);
    barrier();  // the next row overwrites a
  }
  if (thread_x() != 0) return;
  for (int k = 0; k < kShapes; ++k) parts[k * places] = shape[k];
}

struct Chunks {
  const double* parts;
  float* sums;
  std::int64_t count;  ///< of values times places
  int chunks;
};

SIMT_KERNEL(kBlockThreads, 1)
void add_chunks(Chunks c) {
  for (std::int64_t n = first_item(); n < c.count; n += item_stride()) {
    double sum = 0.0;
    for (int i = 0; i < c.chunks; ++i) sum += c.parts[i * c.count + n];
    c.sums[n] = static_cast<float>(sum);
  }
}

}  // namespace

void probe_heads(const Probe& p) {
  const int chunks = (p.sizes.seq + kProbeRows - 1) / kProbeRows;
  const LaunchShape shape{
      .grid = {static_cast<unsigned>(p.sizes.batch * p.sizes.heads), static_cast<unsigned>(chunks)},
      .block = {kBlockThreads},
      .dynamic_shared = (static_cast<std::size_t>(p.sizes.seq) + 3) / 4 * 16};
  launch("attend_probe", probe_rows, shape, p);
  const std::int64_t count =
      static_cast<std::int64_t>(p.sizes.batch) * p.sizes.heads * (kShapes + 2 * p.n_sets);
  launch("attend_probe_sums", add_chunks, threads_for(count),
         Chunks{p.parts, p.sums, count, chunks});
}

}  // namespace headloom::cuda
