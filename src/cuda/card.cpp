#include "cuda/card.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace headloom::cuda {
namespace {

cudaStream_t the_stream = nullptr;

void* allocate(std::size_t bytes) {
  void* data = nullptr;
  const std::size_t size = std::max<std::size_t>(bytes, 256);
  const cudaError_t code = cudaMalloc(&data, size);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // this one is reported here, not at the next launch
    std::size_t unused = 0, all = 0;
    cudaMemGetInfo(&unused, &all);
    fail(
        "cuda: cannot allocate {} bytes; {} of the card's {} are free. A smaller batch needs less; "
        "grad_accum makes up for it",
        size, unused, all);
  }
  check(code, fmt::format("allocating {} bytes", size));
  check(cudaMemsetAsync(data, 0, size, the_stream), "zeroing memory");
  return data;
}

void release(void* data, std::size_t /*bytes*/) {
  cudaFree(data);  // An error here is an earlier one, reported where it arose, or the program ends.
}

void upload(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, the_stream),
        fmt::format("copying {} bytes to the card", bytes));
  check(cudaStreamSynchronize(the_stream), "waiting for a copy to the card");
}

void download(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, the_stream),
        fmt::format("copying {} bytes from the card", bytes));
  check(cudaStreamSynchronize(the_stream), "waiting for a copy from the card");
}

void finish() {
  check(cudaStreamSynchronize(the_stream), "waiting for the card");
}

std::int64_t available() {
  std::size_t unused = 0, all = 0;
  check(cudaMemGetInfo(&unused, &all), "asking for free memory");
  return static_cast<std::int64_t>(unused);
}

/// Everything that `body` launches, as a graph: launched as a whole, a step costs one launch
/// instead of several hundred.
std::shared_ptr<void> record(const std::function<void()>& body) {
  check(cudaStreamBeginCapture(the_stream, cudaStreamCaptureModeThreadLocal), "beginning a graph");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(the_stream, &graph);
    cudaGetLastError();
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(the_stream, &graph), "ending a graph");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(code, "instantiating a graph");
  return {executable, [](void* e) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(e)); }};
}

void replay(void* recording) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(recording), the_stream), "launching a graph");
}

void require_card() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    fail_usage("no CUDA card can be used here ({}); take --device cpu",
               code != cudaSuccess ? cudaGetErrorString(code) : "none is there");
  }
  cudaDeviceProp card{};
  check(cudaGetDeviceProperties(&card, 0), "asking what the card is");
  if (card.major < 8) {
    fail_usage(
        "the card is a {} of compute capability {}.{}; the kernels need 8.0 or more; take "
        "--device cpu",
        card.name, card.major, card.minor);
  }
}

}  // namespace

const Device& card() {
  static const Device device = [] {
    require_card();
    cudaError_t code = cudaSetDevice(0);
    if (code == cudaSuccess) {
      code = cudaStreamCreateWithFlags(&the_stream, cudaStreamNonBlocking);
    }
    if (code != cudaSuccess) {
      fail_usage("the card does not let itself be used: {}; take --device cpu",
                 cudaGetErrorString(code));
    }
    const bool graphs = std::getenv("HEADLOOM_NO_GRAPH") == nullptr;
    return Device{.name = "cuda",
                  .is_host = false,
                  .allocate = allocate,
                  .release = release,
                  .upload = upload,
                  .download = download,
                  .finish = finish,
                  .available = available,
                  .record = graphs ? record : nullptr,
                  .replay = replay,
                  .chunk_numbers = std::int64_t{64} << 20};
  }();
  return device;
}

cudaStream_t stream() {
  return the_stream;
}

void check(cudaError_t code, const std::string& what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // it is reported here, and not once more by the next launch
  fail("cuda: {}: {} ({})", what, cudaGetErrorString(code), cudaGetErrorName(code));
}

}  // namespace headloom::cuda
