#define Eigen Eigen_baseline
#define SHOAL_CPU_SET cpu_baseline
#include "shoal/runtime/device/cpu/verbs.h"
