// Multiplication of matrices: packed panels, multiplied tile by tile in registers.
//
// A tile of C is kTileRows x kTileCols, as many accumulators as the registers hold. Its operands
// are packed: [depth][kTileRows] of A, read as broadcasts, and [depth][kTileCols] of B, read as
// vectors. A block of A's panels stays in the second cache; a panel of B is packed just before its
// use, meets them all from the first cache, and meanwhile the rows that will be packed next are
// fetched. The inner dimension is cut into slabs, so that all this fits; C is read and written once
// a slab. Threads share nothing but their operands: handing packed data from core to core costs
// more than packing it twice.
#include <algorithm>
#include <cstring>

#include "base/threads.h"
#include "ops/cpu.h"
#include "ops/gemm_blocks.h"
#include "ops/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gemm_blocks_cpu.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/pack-inl.h"
#include "ops/register_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// 24 accumulators of AVX-512's 32 registers, 12 of the 16 that others have. Multiples of 4, which
/// is what transposing works in.
constexpr int kTileRows = kLanes == 16 ? 12 : 4;
constexpr int kTileVecs = kLanes == 16 ? 2 : 3;
constexpr std::int64_t kTileCols = kTileVecs * kLanes;
/// The most of the inner dimension in a slab: a panel of B then takes 32 KB at most. A little more
/// goes in one slab all the same, because C is then not read.
constexpr std::int64_t kSlab = 256;
constexpr std::int64_t kSingleSlab = 384;
/// The most rows in a block of A: with a slab, 512 KB.
constexpr std::int64_t kBlockRows = 516;
/// Rows or columns in a piece, if there are enough: every piece packs the other operand anew, which
/// is a hundredth of the work at this size.
constexpr std::int64_t kPieceLines = 512;

HWY_INLINE std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// Cuts C along its longer side.
void cut_into_pieces(GemmPlan& plan) {
  plan.by_rows = plan.c.rows >= plan.c.cols;
  const std::int64_t lines = plan.by_rows ? plan.c.rows : plan.c.cols, threads = thread_count();
  const std::int64_t pieces = std::max<std::int64_t>(1, lines / (kPieceLines * threads)) * threads;
  plan.piece = round_up((lines + pieces - 1) / pieces, plan.by_rows ? kTileRows : kTileCols);
  plan.pieces = (lines + plan.piece - 1) / plan.piece;
}

/// Rows of the source that are read before the next panel's piece of them: they stay in the first
/// cache meanwhile.
constexpr std::int64_t kRowsAtATime = 8;

/// Packs lines [first, first + lines) of depth [begin, begin + depth) into panels of kWidth lines,
/// [depth][kWidth] each. Lines of the last panel that are not there are zeros.
template <std::int64_t kWidth>
void pack_panels(const GemmOperand& op, std::int64_t first, std::int64_t lines, std::int64_t begin,
                 std::int64_t depth, float* to) {
  const float* from = op.at(first, begin);
  const std::int64_t whole = lines / kWidth * kWidth, rest = lines - whole;
  if (rest > 0) std::fill_n(to + whole * depth, kWidth * depth, 0.0F);
  if (op.depth_stride == 1) {
    for (std::int64_t line = 0; line < lines; line += kWidth) {
      transpose(from + line * op.line_stride, op.line_stride, std::min(kWidth, lines - line), depth,
                1.0F, to + line * depth, kWidth);
    }
    return;
  }
  for (std::int64_t block = 0; block < depth; block += kRowsAtATime) {
    const std::int64_t end = std::min(depth, block + kRowsAtATime);
    for (std::int64_t line = 0; line < lines; line += kWidth) {
      for (std::int64_t k = block; k < end; ++k) {
        const float* row = from + k * op.depth_stride + line;
        float* place = to + line * depth + k * kWidth;
        if (line < whole) {
          std::memcpy(place, row, kWidth * sizeof(float));
        } else {
          std::copy_n(row, rest, place);
        }
      }
    }
  }
}

/// C's tile (= or +=) A's panel times B's.
HWY_INLINE void multiply_tile(const float* a, const float* b, std::int64_t depth, float* c,
                              std::int64_t stride, bool add, const float* bias) {
  const F d;
  // C comes from memory; it is needed when the products are there.
  HEADLOOM_UNROLL for (int i = 0; i < kTileRows; ++i) {
    HEADLOOM_UNROLL for (int v = 0; v < kTileVecs; ++v) {
      hwy::Prefetch(c + i * stride + v * kLanes);
    }
  }
  Tile<kTileRows, kTileVecs> t;
  tile_zero<0>(t);
  tile_multiply<0>(t, a, 1, kTileRows, b, kTileCols, depth);
  HEADLOOM_UNROLL for (int i = 0; i < kTileRows; ++i) {
    HEADLOOM_UNROLL for (int v = 0; v < kTileVecs; ++v) {
      float* place = c + i * stride + v * kLanes;
      V sum = t[i][v];
      if (add) sum = hn::Add(sum, hn::LoadU(d, place));
      if (bias != nullptr) sum = hn::Add(sum, hn::LoadU(d, bias + v * kLanes));
      hn::StoreU(sum, d, place);
    }
  }
}

/// Where a block of A meets a panel of B.
struct Meeting {
  const float *a, *b;
  std::int64_t depth;
  std::int64_t row, rows, col, cols;  ///< of C; at most kTileCols columns
  bool add;                           ///< to what C holds
  const float* bias;                  ///< of these columns; null when nothing is to be added
};

/// A tile at the edge of C goes through a whole one beside it.
void multiply_edge(const GemmPlan& plan, const Meeting& m, const float* a, std::int64_t row) {
  HWY_ALIGN float tile[kTileRows * kTileCols];
  multiply_tile(a, m.b, m.depth, tile, kTileCols, false, nullptr);
  const std::int64_t rows = std::min<std::int64_t>(kTileRows, m.row + m.rows - row);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* c = plan.c.row(row + i) + m.col;
    for (std::int64_t j = 0; j < m.cols; ++j) {
      float sum = tile[i * kTileCols + j];
      if (m.add) sum += c[j];
      if (m.bias != nullptr) sum += m.bias[j];
      c[j] = sum;
    }
  }
}

/// Rows that will be packed later, and how many to fetch after each tile.
struct Ahead {
  RowPrefetch rows;
  std::int64_t per_tile = 0;

  HWY_INLINE void next() {
    for (std::int64_t i = 0; i < per_tile; ++i) rows.next();
  }
};

void multiply_panel(const GemmPlan& plan, const Meeting& m, Ahead& next_a, Ahead& next_b) {
  const float* a = m.a;
  for (std::int64_t row = m.row; row < m.row + m.rows; row += kTileRows) {
    if (m.cols == kTileCols && row + kTileRows <= m.row + m.rows) {
      multiply_tile(a, m.b, m.depth, plan.c.row(row) + m.col, plan.c.stride, m.add, m.bias);
    } else {
      multiply_edge(plan, m, a, row);
    }
    next_a.next();
    next_b.next();
    a += kTileRows * m.depth;
  }
}

/// The rows in memory of `lines` lines from `line` on in a slab, to be fetched during `tiles`
/// tiles.
Ahead fetch_during(std::int64_t tiles, const GemmOperand& op, std::int64_t line, std::int64_t lines,
                   std::int64_t begin, std::int64_t depth) {
  Ahead ahead;
  if (lines <= 0 || depth <= 0) return ahead;
  const bool along_depth = op.depth_stride == 1;
  const std::int64_t rows = along_depth ? lines : depth;
  ahead.rows.add(op.at(line, begin), along_depth ? op.line_stride : op.depth_stride, rows,
                 along_depth ? depth : lines);
  ahead.per_tile = (rows + tiles - 1) / tiles;
  return ahead;
}

/// One block of A against all its columns of C, slab by slab.
void multiply_block(const GemmPlan& plan, std::int64_t row, std::int64_t rows, std::int64_t col,
                    std::int64_t cols) {
  const std::int64_t slabs = plan.depth <= kSingleSlab ? 1 : (plan.depth + kSlab - 1) / kSlab;
  const std::int64_t slab = (plan.depth + slabs - 1) / slabs;
  float* a = thread_scratch(round_up(rows, kTileRows) * slab + slab * kTileCols);
  float* b = a + round_up(rows, kTileRows) * slab;
  const std::int64_t tiles = round_up(rows, kTileRows) / kTileRows;
  const std::int64_t panels = round_up(cols, kTileCols) / kTileCols;
  for (std::int64_t begin = 0; begin < plan.depth; begin += slab) {
    const std::int64_t depth = std::min(slab, plan.depth - begin), next = begin + slab;
    const bool add = plan.accumulate || begin > 0;
    pack_panels<kTileRows>(plan.a, row, rows, begin, depth, a);
    Ahead next_a =
        fetch_during(tiles * panels, plan.a, row, rows, next, std::min(slab, plan.depth - next));
    for (std::int64_t c = 0; c < cols; c += kTileCols) {
      const std::int64_t width = std::min(kTileCols, cols - c), next_c = c + kTileCols;
      pack_panels<kTileCols>(plan.b, col + c, width, begin, depth, b);
      Ahead next_b = fetch_during(tiles, plan.b, col + next_c, std::min(kTileCols, cols - next_c),
                                  begin, depth);
      const float* bias = add || plan.bias == nullptr ? nullptr : plan.bias + col + c;
      multiply_panel(plan, {a, b, depth, row, rows, col + c, width, add, bias}, next_a, next_b);
    }
  }
}

void multiply_piece(const GemmPlan& plan, std::int64_t piece) {
  const std::int64_t first = piece * plan.piece;
  const std::int64_t end = std::min(first + plan.piece, plan.by_rows ? plan.c.rows : plan.c.cols);
  const std::int64_t first_row = plan.by_rows ? first : 0;
  const std::int64_t rows = plan.by_rows ? end - first : plan.c.rows;
  const std::int64_t col = plan.by_rows ? 0 : first;
  const std::int64_t cols = plan.by_rows ? plan.c.cols : end - first;
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  const std::int64_t block = round_up((rows + blocks - 1) / blocks, kTileRows);
  for (std::int64_t row = 0; row < rows; row += block) {
    multiply_block(plan, first_row + row, std::min(block, rows - row), col, cols);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(cut_into_pieces);
HWY_EXPORT(multiply_piece);

namespace {

GemmOperand operand(const Matrix<const float>& m, bool lines_are_rows) {
  if (lines_are_rows) return {m.data, m.rows, m.stride, 1};
  return {m.data, m.cols, 1, m.stride};
}

}  // namespace

void gemm_blocks_cpu(const Gemm<float>& g) {
  GemmPlan plan;
  plan.a = operand(g.a, !g.transpose_a);
  plan.b = operand(g.b, g.transpose_b);
  plan.depth = g.inner();
  plan.c = g.c;
  plan.accumulate = g.accumulate;
  plan.bias = g.bias;
  HWY_DYNAMIC_DISPATCH(cut_into_pieces)(plan);
  parallel_tasks(plan.pieces, [&](std::int64_t piece) {
    HWY_DYNAMIC_DISPATCH(multiply_piece)(plan, piece);
  });
}

}  // namespace headloom
#endif
