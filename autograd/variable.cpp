#include "shoal/autograd/variable.h"
