#include "shoal/autograd/functions.h"
