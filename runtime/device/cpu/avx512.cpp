#define Eigen Eigen_avx512
#define SHOAL_CPU_SET cpu_avx512
#include "shoal/runtime/device/cpu/verbs.h"
