#include "shoal/autograd/module.h"
