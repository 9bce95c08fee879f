#define Eigen Eigen_avx2
#define SHOAL_CPU_SET cpu_avx2
#include "shoal/runtime/device/cpu/verbs.h"
