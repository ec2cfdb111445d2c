#include <cmath>
#include <complex>

#include "base/files.h"
#include "base/rng.h"
#include "model/parameters.h"

namespace headloom {

template <class T>
void initialise(const ParameterLayout& layout, const ModelConfig& config, std::uint64_t seed,
                T* parameters) {
  for (const ParameterInfo& info : layout.tensors()) {
    T* tensor = parameters + info.offset;
    const bool is_matrix = info.shape.size() == 2;
    const bool is_gain = info.group == ParameterGroup::kNorms && info.name.ends_with(".weight");
    if (!is_matrix) {
      std::fill(tensor, tensor + info.stored, T(is_gain ? 1 : 0));
      continue;
    }
    const double depth = std::sqrt(2.0 * static_cast<double>(config.n_layers));
    const double std_dev = info.residual ? config.init_std / depth : config.init_std;
    Rng rng(mix_seed(seed, hash_bytes(info.name)));
    for (std::int64_t i = 0; i < info.size(); ++i) tensor[i] = T(std_dev * rng.normal());
  }
}

template void initialise(const ParameterLayout&, const ModelConfig&, std::uint64_t, float*);
template void initialise(const ParameterLayout&, const ModelConfig&, std::uint64_t, double*);
template void initialise(const ParameterLayout&, const ModelConfig&, std::uint64_t,
                         std::complex<double>*);

}  // namespace headloom
