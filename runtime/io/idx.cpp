#include "shoal/runtime/io/idx.h"
