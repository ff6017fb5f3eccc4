/* The version of the library. */
#include "private.h"

int sdtVersion(void) { return SDT_VERSION; }
