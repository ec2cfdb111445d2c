#include "base/threads.h"

#include <omp.h>

namespace headloom {

int thread_count() {
  return omp_get_max_threads();
}

void set_thread_count(int count) {
  omp_set_num_threads(count);
}

}  // namespace headloom
