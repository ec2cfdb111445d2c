#include "base/threads.h"

#include <omp.h>

namespace headloom {

int thread_count() {
  return omp_get_max_threads();
}

}  // namespace headloom
