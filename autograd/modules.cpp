#include "shoal/autograd/modules.h"
