#include "shoal/runtime/io/safetensors.h"
