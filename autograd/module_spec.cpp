#include "shoal/autograd/module_spec.h"
